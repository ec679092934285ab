package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// params are those of one run.
type params struct {
	TenantID string `json:"tenant_id"`
	Account  string `json:"account"`
	Source   string `json:"source"`
	Mode     string `json:"mode"`
	Records  int    `json:"records"`
	Since    string `json:"since"`
}

// tenants have as many runs as traffic of this kind has: one third comes from one of
// them, and the tail is long.
var tenants = []struct {
	id, prefix string
	runs       int
}{
	{"harbor-books", "hb", 133},
	{"luma-clinic", "lc", 62},
	{"oakline-foods", "of", 45},
	{"tern-logistics", "tl", 36},
	{"mapleworks", "mw", 28},
	{"quill-legal", "ql", 24},
	{"fieldnote", "fn", 19},
	{"bluebarn", "bb", 16},
	{"stanza-music", "sm", 13},
	{"cedar-dental", "cd", 10},
	{"pinecrest-hoa", "ph", 8},
	{"ridge-cycling", "rc", 6},
}

var sources = []string{"billing", "crm", "ledger", "support"}

// syncAccounts are all runs, in the order in which they are submitted: mixed, with some
// accounts more than once, as when a user presses the button again.
func syncAccounts() []byte {
	const seed = 20261130
	rng := rand.New(rand.NewPCG(seed, seed))
	from := time.Date(2026, time.November, 30, 6, 0, 0, 0, time.UTC)
	var all []params
	for _, t := range tenants {
		for range t.runs {
			all = append(all, params{
				TenantID: t.id,
				Account:  fmt.Sprintf("%s-%04d", t.prefix, 1000+rng.IntN(3*t.runs)),
				Source:   sources[rng.IntN(len(sources))],
				Mode:     []string{"delta", "delta", "delta", "full"}[rng.IntN(4)],
				Records:  1 + rng.IntN(40)*rng.IntN(60),
				Since:    from.Add(time.Duration(rng.IntN(7200)) * time.Second).Format(time.RFC3339),
			})
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return lines(all)
}
