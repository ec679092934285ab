package tidy

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// word is something that must not stand in a file of this repository.
type word struct {
	stems []string // a line without any of these, in lower case, has no match
	re    *regexp.Regexp
	why   string
}

// newWord makes a word. Stems and pattern are written with a class of one letter
// each, so that this file doesn't hold what it looks for.
func newWord(stems, pattern, why string) word {
	plain := strings.NewReplacer("[", "", "]", "").Replace(stems)
	return word{strings.Fields(plain), regexp.MustCompile(pattern), why}
}

const (
	pathWhy    = "a path of one machine"
	processWhy = "a word about how the project is worked on; say what the code does"
)

// find is the match in a line, of which lower is the lower case.
func (w word) find(line, lower string) string {
	if !slices.ContainsFunc(w.stems, func(stem string) bool { return strings.Contains(lower, stem) }) {
		return ""
	}
	return strings.TrimSpace(w.re.FindString(line))
}

var words = []word{
	newWord("/wor[k]/ /far[m]/ /roo[t]/ /hom[e]/ /user[s]/", `(^|[^\w.:-])/(wor[k]|far[m]|roo[t]|hom[e]|User[s])/`, pathWhy),
	newWord("/tm[p]/h", `/tm[p]/h\b`, pathWhy),
	newWord("gopro[x]y registr[y] prox[y].golang", `(?i)(GOPROX[Y]|registr[y]) *[=:] *"?https?://|\bprox[y]\.golang\.org`, "the host of a registry"),
	newWord("see[d] decide[d]", `(?i)\[(see[d]|decide[d])\]|\bsee[d]'s\b|\bsee[d]s?\.md\b|\bthe see[d]s? (says?|states?|leaves?|asks?|wants?|is the|knows?)\b`, processWhy),
	newWord("see[d]", `\bSee[d] [0-9a-f]{6,}\b`, processWhy),
	newWord("par[t]", `(?i)\bpar[t] (\d+|one|two|three|four|five|six|seven|eight)\b`, processWhy),
	newWord("issu[e] #", `(?i)\bissu[e]s? #?\d+|(^|[\s(])#\d{1,5}\b`, "the number of an issue; say what it was about"),
	newWord("share[d]/", `(^|[^\w./-])share[d]/`, processWhy),
	newWord("helpe[r]", `(^|[^.\w])(helpe[r]s?\b|Helpe[r]s?([\s.,;:]|$))`, "a word without a noun; say what it does"),
	newWord("sessio[n]", `(?i)\b(this|my|our|previous|earlier|last|coding|working) sessio[n]\b`, processWhy),
	newWord("agen[t]", `(?i)\bsub-?agen[t]s?\b|\b(coding|ai|llm|other|another|this) agen[t]s?\b|\bagent[s]\.md\b`, processWhy),
	newWord("claud[e] anthropi[c] chatgp[t] copilo[t]", `(?i)\b(claud[e]|anthropi[c]|chatgp[t]|copilo[t])\b`, processWhy),
	newWord("architectur[e] spe[c] styl[e] hollywoo[d] experienc[e] section",
		`\b(architectur[e]|spe[c]|styl[e]|hollywoo[d]|experienc[e])\.md\b|(?i)\bsection 1[6]\b`, "a page that isn't in this repository"),
}

var (
	leftOver   = newWord("tod[o] fixm[e]", `\b(TOD[O]|FIXM[E])\b`, "a leftover without a reason; write what is missing and why")
	withReason = regexp.MustCompile(`\b(TOD[O]|FIXM[E])(\([^)]+\))?: \S+( \S+){2,}`)
	noNoun     = regexp.MustCompile(`(^|[_/])(utils?|commons?|helpe[r]s?|managers?|misc)(_test)?(\.go|/|$)`)
)

// isText says whether a file is prose or code of this project: not a list of
// hashes, not fuzz input, not bytes.
func isText(name string, text []byte) bool {
	return path.Base(name) != "go.sum" && !strings.Contains(name, "testdata/fuzz/") && !bytes.ContainsRune(text, 0)
}

func checkWords(m *module) []string {
	var problems []string
	for _, name := range m.names {
		if noNoun.MatchString(name) {
			problems = append(problems, name+":1: the file's name has no noun")
		}
		if !isText(name, m.texts[name]) {
			continue
		}
		number := 0
		for line := range strings.Lines(string(m.texts[name])) {
			number++
			for _, why := range foundIn(line) {
				problems = append(problems, fmt.Sprintf("%s:%d: %s", name, number, why))
			}
		}
	}
	return problems
}

// foundIn says what is wrong with a line.
func foundIn(line string) []string {
	line = strings.TrimRight(line, "\r\n")
	lower := strings.ToLower(line)
	var all []string
	for _, w := range words {
		if hit := w.find(line, lower); hit != "" {
			all = append(all, fmt.Sprintf("%q is %s", hit, w.why))
		}
	}
	if leftOver.find(line, lower) != "" && !withReason.MatchString(line) {
		all = append(all, leftOver.why)
	}
	return all
}

// TestWords fails for a word that tells of a machine, a registry or the way of
// working, for a leftover without a reason, and for a file without a noun.
func TestWords(t *testing.T) {
	report(t, checkWords(loadRepository(t)))
}

func TestWordsCatches(t *testing.T) {
	// A tilde keeps the examples from being what they show.
	wrong := []string{
		"cd /wo~rk/main", "see /ro~ot/.cache", "`/ho~me/me/x`", "/tm~p/h/common", "GOPRO~XY=https://x.test", "pro~xy.golang.org",
		"[se~ed]", "the se~ed says so", "the se~ed's rule", "Se~ed 1999263f", "pa~rt 3 of it", "Pa~rt two", "iss~ue 12", "fixes (#~12)",
		"read sha~red/design", "a he~lper for it", "He~lpers do", "in this ses~sion", "another ag~ent", "suba~gents", "AGE~NTS.md",
		"Cla~ude", "archi~tecture.md", "see spe~c.md", "sec~tion 16", "TO~DO later", "FIX~ME: soon",
	}
	for _, line := range wrong {
		if line := strings.ReplaceAll(line, "~", ""); len(foundIn(line)) != 1 {
			t.Errorf("%q gives %q, want one problem", line, foundIn(line))
		}
	}
	right := []string{
		"https://example.test/wo~rk/1", "POST /v1/home/", "t.Helper()", "Helper()", "seed corpus", "-seed=12", "two parts of five",
		"User-Agent: x", "the session worker", "hashicorp/raft#503", "// TO~DO: measure it on ext4 again", "# 1 heading",
		"activity_session", "an agent run", "%#04x", "style.css", "the seeds of the generator",
	}
	for _, line := range right {
		if line := strings.ReplaceAll(line, "~", ""); len(foundIn(line)) != 0 {
			t.Errorf("%q gives %q, want none", line, foundIn(line))
		}
	}
	for name, bad := range map[string]bool{"a/util.go": true, "utils/a.go": true, "a/x_manager_test.go": true, "a/utility.go": false, "a/commonality/b.go": false} {
		if got := noNoun.MatchString(name); got != bad {
			t.Errorf("%s has no noun = %v, want %v", name, got, bad)
		}
	}
}

func TestWordsReadsOnlyText(t *testing.T) {
	line := "the se" + "ed says so\n"
	m := fixture(t, map[string]string{
		"go.sum": line, "a/testdata/fuzz/FuzzX/1": line, "b.bin": "\x00" + line, "a.md": "x\n" + line, "a/testdata/S01_x.txt": line,
	})
	problems := checkWords(m)
	expect(t, problems, "a.md:2:", "a/testdata/S01_x.txt:1:")
	if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, processWhy) }) {
		t.Errorf("problems = %q, want the reason", problems)
	}
}
