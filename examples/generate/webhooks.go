package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// webhook is one delivery, as a host of repositories sends it.
type webhook struct {
	Delivery   string `json:"delivery"`
	At         string `json:"at"`
	Event      string `json:"event"`
	Repository string `json:"repository"`
	Sender     string `json:"sender"`
	Action     string `json:"action,omitempty"`
	Number     int    `json:"number,omitempty"` // of an issue or a pull request
	Ref        string `json:"ref,omitempty"`
	Commits    int    `json:"commits,omitempty"`

	after time.Duration // since the stream began
}

const (
	deliveries = 1200
	streamSpan = 2 * time.Hour
)

// repositories have weights: a few are loud, and most have an event now and then.
var repositories = []struct {
	name   string
	weight int
}{
	{"acme/api", 260}, {"acme/web", 190}, {"acme/infra", 120}, {"tidepool/engine", 96}, {"acme/mobile", 72},
	{"tidepool/docs", 58}, {"lantern/core", 50}, {"lantern/cli", 44}, {"acme/billing", 40}, {"thornbury/atlas", 36},
	{"tidepool/bench", 30}, {"thornbury/maps", 28}, {"lantern/plugins", 25}, {"acme/design", 22}, {"gable/roof", 20},
	{"gable/gutter", 17}, {"thornbury/tiles", 15}, {"acme/handbook", 13}, {"lantern/site", 11}, {"gable/beam", 9},
	{"tidepool/rfcs", 8}, {"thornbury/notes", 6}, {"acme/legacy", 4}, {"gable/attic", 3}, {"lantern/archive", 2},
}

var senders = []string{
	"mona", "heron", "wren", "tansy", "juniper", "larkspur", "pike", "sorrel", "rowan", "teasel", "otter", "bramble", "sedge", "build-bot",
}

// webhooks are all deliveries in the order in which they came.
func webhooks() []byte {
	const seed = 20261207
	rng := rand.New(rand.NewPCG(seed, seed))
	var total int
	for _, r := range repositories {
		total += r.weight
	}
	var all []webhook
	for i, r := range repositories {
		n := max(1, deliveries*r.weight/total)
		if i == 0 { // what rounding has left over
			n = deliveries
			for _, other := range repositories[1:] {
				n -= max(1, deliveries*other.weight/total)
			}
		}
		all = append(all, traffic(rng, r.name, n)...)
	}
	slices.SortStableFunc(all, func(a, b webhook) int { return cmp.Compare(a.after, b.after) })
	from := time.Date(2026, time.December, 7, 9, 0, 0, 0, time.UTC)
	for i := range all {
		all[i].At = from.Add(all[i].after).Format(time.RFC3339)
		all[i].Delivery = fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x",
			rng.Uint32(), rng.IntN(1<<16), rng.IntN(1<<12), 0x8000|rng.IntN(1<<14), rng.Uint64N(1<<48))
	}
	return lines(all)
}

// traffic are n deliveries of a repository: people work in spells, and each spell is of
// two or three of them.
func traffic(rng *rand.Rand, repository string, n int) (all []webhook) {
	number := 1 + rng.IntN(900)
	for len(all) < n {
		at := time.Duration(rng.Int64N(int64(streamSpan)))
		people := []string{senders[rng.IntN(len(senders))], senders[rng.IntN(len(senders))], senders[rng.IntN(len(senders))]}
		for range min(1+rng.IntN(24), n-len(all)) {
			at += time.Duration(1+rng.IntN(40)) * time.Second
			w := something(rng, &number)
			w.Repository, w.Sender, w.after = repository, people[rng.IntN(len(people))], at
			all = append(all, w)
		}
	}
	return all
}

// something is what may happen in a repository. number is its last issue or pull request.
func something(rng *rand.Rand, number *int) webhook {
	earlier := max(1, *number-rng.IntN(20))
	one := func(of ...string) string { return of[rng.IntN(len(of))] }
	switch n := rng.IntN(100); {
	case n < 36:
		ref := one("refs/heads/main", "refs/heads/main", "refs/heads/next", fmt.Sprintf("refs/heads/fix-%d", earlier))
		return webhook{Event: "push", Ref: ref, Commits: 1 + rng.IntN(3)*rng.IntN(4)}
	case n < 46:
		*number++
		return webhook{Event: "pull_request", Action: "opened", Number: *number}
	case n < 58:
		return webhook{Event: "pull_request", Action: one("synchronize", "synchronize", "closed", "reopened", "labeled"), Number: earlier}
	case n < 64:
		*number++
		return webhook{Event: "issues", Action: "opened", Number: *number}
	case n < 72:
		return webhook{Event: "issues", Action: one("closed", "labeled", "assigned", "reopened"), Number: earlier}
	case n < 86:
		return webhook{Event: "issue_comment", Action: one("created", "created", "created", "edited"), Number: earlier}
	case n < 92:
		return webhook{Event: "pull_request_review", Action: "submitted", Number: earlier}
	case n < 97:
		return webhook{Event: "star", Action: one("created", "created", "created", "deleted")}
	case n < 99:
		return webhook{Event: "create", Ref: fmt.Sprintf("refs/heads/fix-%d", earlier)}
	default:
		return webhook{Event: "release", Action: "published", Ref: fmt.Sprintf("refs/tags/v1.%d.%d", rng.IntN(20), rng.IntN(9))}
	}
}
