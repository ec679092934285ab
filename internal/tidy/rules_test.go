package tidy

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const rulesPage = "docs/rules.md"

// The states of a rule.
const (
	planned = "planned"
	built   = "built"
)

// testsShown bounds the tests that an update writes into one row.
const testsShown = 3

var update = flag.Bool("update", false, "rewrite the tests column of "+rulesPage)

// rule is one row of the page.
type rule struct {
	number string
	state  string
	tests  []string
	line   int // from 1
}

var (
	rowNumber = regexp.MustCompile(`^([PTQR][1-9]\d{0,2}a?|S\d{2,3}|D\d\.\d{1,2})$`)
	codeSpan  = regexp.MustCompile("`([^`]+)`")
)

// parseRules reads the tables of the page.
func parseRules(text string) (rules []*rule, problems []string) {
	wrong := func(line int, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d: %s", rulesPage, line, fmt.Sprintf(format, args...)))
	}
	seen := map[string]bool{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		cells, ok := rowCells(line)
		switch {
		case !ok || cells[0] == "rule" || strings.HasPrefix(cells[0], "---"):
			continue
		case len(cells) != 4:
			wrong(number, "a row has %d cells, not the 4 of rule, promise, state, tests", len(cells))
			continue
		case !rowNumber.MatchString(cells[0]):
			wrong(number, "%q is not the number of a rule", cells[0])
			continue
		}
		r := &rule{number: cells[0], state: cells[2], line: number}
		for _, span := range codeSpan.FindAllStringSubmatch(cells[3], -1) {
			r.tests = append(r.tests, span[1])
		}
		if seen[r.number] {
			wrong(number, "%s stands here twice", r.number)
		}
		seen[r.number] = true
		if cells[1] == "" {
			wrong(number, "%s promises nothing", r.number)
		}
		switch {
		case r.state != planned && r.state != built:
			wrong(number, "%s is %q, neither %s nor %s", r.number, r.state, planned, built)
		case r.state == planned && cells[3] != "":
			wrong(number, "%s is planned and names tests: set it to %s, or leave them out", r.number, built)
		}
		rules = append(rules, r)
	}
	return rules, problems
}

func rowCells(line string) ([]string, bool) {
	inner, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !ok {
		return nil, false
	}
	cells := strings.Split(strings.TrimSuffix(inner, "|"), "|")
	for i, cell := range cells {
		cells[i] = strings.TrimSpace(cell)
	}
	return cells, true
}

// proof is a test or transcript whose name carries numbers.
type proof struct {
	name    string // TestP50LeaseExpiry, or the name of a transcript's file
	place   string
	numbers []string
}

// proofs are all tests of a module, and the transcripts that carry a number.
func proofs(m *module) []proof {
	var all []proof
	for _, f := range m.files {
		if !f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			if rest, ok := testName(fn.Name.Name); ok {
				all = append(all, proof{fn.Name.Name, m.at(fn.Pos()), ruleNumbers(rest)})
			}
		}
	}
	for _, name := range m.names {
		base := path.Base(name)
		if path.Ext(base) == ".txt" && slices.Contains(strings.Split(path.Dir(name), "/"), "testdata") {
			if numbers := ruleNumbers(strings.TrimSuffix(base, ".txt")); len(numbers) > 0 {
				all = append(all, proof{base, name + ":1", numbers})
			}
		}
	}
	return all
}

// testName cuts what makes a function a test off its name.
func testName(name string) (string, bool) {
	for _, prefix := range []string{"Test", "Fuzz", "Example"} {
		rest, ok := strings.CutPrefix(name, prefix)
		if ok && name != "TestMain" && (rest == "" || !unicode.IsLower(rune(rest[0]))) {
			return rest, true
		}
	}
	return "", false
}

// numberHead is a number at the beginning of a text: one of the capitals P, T, Q, R
// and one to three digits, S and two or three, D with the two numbers of an item.
var numberHead = regexp.MustCompile(`^([PTQR][1-9]\d{0,2}|S\d{2,3}|D\d_\d{1,2})(a?)`)

// ruleNumbers finds the numbers in a name that is without its Test, Fuzz or
// Example. A number stands at the beginning, behind an underscore, or right behind
// another number. Behind it the name ends, goes on with an underscore or another
// number, or begins a word with a capital. So TestP63_S62CancelWins has two and
// TestLatencyP99 none; TestP2P has none either, since P2P is a word: a capital that
// is the number's own, with no lower-case letter behind it.
func ruleNumbers(name string) []string {
	var found []string
	for open := true; name != ""; {
		if open {
			if number, rest, ok := cutNumber(name); ok {
				found = append(found, number)
				name = rest
				continue
			}
		}
		open = name[0] == '_'
		name = name[1:]
	}
	return found
}

func cutNumber(name string) (number, rest string, ok bool) {
	hit := numberHead.FindStringSubmatch(name)
	if hit == nil {
		return "", "", false
	}
	number, rest = hit[1]+hit[2], name[len(hit[0]):]
	if rest != "" {
		next := rune(rest[0])
		_, _, another := cutNumber(rest)
		isWord := rest[0] == hit[1][0] && (len(rest) == 1 || !unicode.IsLower(rune(rest[1])))
		if next != '_' && !another && (!unicode.IsUpper(next) || isWord) {
			return "", "", false
		}
	}
	return strings.Replace(number, "_", ".", 1), rest, true
}

func checkRules(m *module) []string {
	rules, problems := parseRules(string(m.texts[rulesPage]))
	known := map[string]bool{}
	for _, r := range rules {
		known[r.number] = true
	}
	names, proven := map[string]bool{}, map[string]bool{}
	for _, p := range proofs(m) {
		names[p.name] = true
		for _, number := range p.numbers {
			proven[number] = true
			if !known[number] {
				problems = append(problems, fmt.Sprintf("%s: %s names %s, and %s has no such rule", p.place, p.name, number, rulesPage))
			}
		}
	}
	for _, r := range rules {
		place := fmt.Sprintf("%s:%d: %s is built and", rulesPage, r.line, r.number)
		switch {
		case r.state != built:
			continue
		case !proven[r.number]:
			problems = append(problems, place+" no test carries its number")
		case len(r.tests) == 0:
			problems = append(problems, place+" names no test")
		}
		for _, name := range r.tests {
			if !names[name] {
				problems = append(problems, fmt.Sprintf("%s names %s, which doesn't exist", place, name))
			}
		}
	}
	return problems
}

// updateRules writes the tests of the built rules into their rows.
func updateRules(m *module) []byte {
	tests := map[string][]string{}
	for _, p := range proofs(m) {
		for _, number := range p.numbers {
			tests[number] = append(tests[number], "`"+p.name+"`")
		}
	}
	var page bytes.Buffer
	for line := range strings.Lines(string(m.texts[rulesPage])) {
		cells, ok := rowCells(line)
		if ok && len(cells) == 4 && rowNumber.MatchString(cells[0]) && cells[2] == built {
			names := slices.Compact(slices.Sorted(slices.Values(tests[cells[0]])))
			more := ""
			if len(names) > testsShown {
				more = fmt.Sprintf(" and %d more", len(names)-testsShown)
				names = names[:testsShown]
			}
			line = fmt.Sprintf("| %s | %s | %s | %s%s |\n", cells[0], cells[1], cells[2], strings.Join(names, ", "), more)
		}
		page.WriteString(line)
	}
	return page.Bytes()
}

// TestRulesPage fails when a built rule has no test, and when a test names a rule
// that isn't there.
func TestRulesPage(t *testing.T) {
	m := loadRepository(t)
	if *update {
		root, err := findRoot()
		if err != nil {
			t.Fatal(err)
		}
		page := updateRules(m)
		if err := os.WriteFile(filepath.Join(root, filepath.FromSlash(rulesPage)), page, 0o644); err != nil {
			t.Fatal(err)
		}
		m.texts[rulesPage] = page
	}
	report(t, checkRules(m))
}
