package tidy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// numbersPromised are the numbers that the page has had from its beginning. A
// number is never taken back, so none of them may go.
func numbersPromised() []string {
	all := []string{"T38a", "Q41a"}
	span := func(letter string, first, last int) {
		for n := first; n <= last; n++ {
			all = append(all, fmt.Sprintf("%s%d", letter, n))
		}
	}
	span("P", 1, 40)
	span("P", 50, 87)
	span("T", 1, 54)
	span("Q", 1, 55)
	span("R", 1, 24)
	span("D5.", 1, 8)
	for n := range strings.FieldsSeq(`01 02 04 05 06 07 08 09 11 12 13 14 15 16 17 19 20 21 23 24 27 29 30 32 34 35 36 37 38 39
		40 41 42 43 47 48 51 52 54 55 56 57 62 64 65 67 68 71 75 76 77 78 79 80 81 84 85 86 88 90 91 92 95 96 99 100 101 103 104
		105 106 107`) {
		all = append(all, "S"+n)
	}
	return all
}

// TestRulesPageIsWhole fails when a rule is removed from the page.
func TestRulesPageIsWhole(t *testing.T) {
	rules, problems := parseRules(string(loadRepository(t).texts[rulesPage]))
	report(t, problems)
	for _, number := range numbersPromised() {
		if !slices.ContainsFunc(rules, func(r *rule) bool { return r.number == number }) {
			t.Errorf("%s: rule %s is gone", rulesPage, number)
		}
	}
}

func TestRuleNumbers(t *testing.T) {
	for name, want := range map[string]string{
		"TestP50LeaseExpiry":           "P50",
		"TestS06StartRacesEnd":         "S06",
		"TestR5Room":                   "R5",
		"TestP63_S62CancelWins":        "P63 S62",
		"TestP63S62CancelWins":         "P63 S62",
		"TestCancelWins_P63_S62":       "P63 S62",
		"TestD5_3TwoBuilds":            "D5.3",
		"TestD5_3_P30":                 "D5.3 P30",
		"TestT38aPools":                "T38a",
		"TestQ41a":                     "Q41a",
		"TestP87HTTPForms":             "P87",
		"TestS100Signals":              "S100",
		"FuzzR6Outbox":                 "R6",
		"ExampleClient_P35":            "P35",
		"TestP999Later":                "P999",
		"TestT38add":                   "",
		"TestS":                        "",
		"TestS3Upload":                 "",
		"TestP2P":                      "",
		"TestP2PLink":                  "",
		"TestP2Pool":                   "P2",
		"TestP50lease":                 "",
		"TestLatencyP99":               "",
		"TestP0":                       "",
		"TestP1234":                    "",
		"TestMain":                     "",
		"Testing50":                    "",
		"BenchmarkP15":                 "",
		"TestS06x_P2":                  "P2",
		"S06_start_races_end":          "S06",
		"S42_S56_throttled_head":       "S42 S56",
		"TestR18FenceStaysBelow_S05":   "R18 S05",
		"TestQ14_Q29ExactBudgetPasses": "Q14 Q29",
	} {
		rest, ok := testName(name)
		if strings.HasPrefix(name, "S") {
			rest, ok = name, true // a transcript's file
		}
		got := ""
		if ok {
			got = strings.Join(ruleNumbers(rest), " ")
		}
		if got != want {
			t.Errorf("%s names %q, want %q", name, got, want)
		}
	}
}

const pageHead = "| rule | promise | state | tests |\n| --- | --- | --- | --- |\n"

func TestRulesPageCatches(t *testing.T) {
	m := fixture(t, map[string]string{
		rulesPage: "# Rules\n" + pageHead +
			"| P1 | It holds. | built | `TestP1Holds` |\n" +
			"| P2 | It holds. | built | `TestP2Gone` |\n" +
			"| P3 | It holds. | built | |\n" +
			"| P4 | It holds. | built | `TestP1Holds` |\n" +
			"| P5 | It holds. | planned | `TestP1Holds` |\n" +
			"| P6 | It holds. | done | |\n" +
			"| P7 | | planned | |\n" +
			"| P7 | It holds. | planned | |\n" +
			"| X7 | It holds. | planned | |\n" +
			"| P8 | It holds. | planned |\n" +
			"| S06 | It holds. | built | `S06_race.txt` |\n",
		"a/a_test.go":             "package a\nfunc TestP1Holds() {}\nfunc TestP2_P3Other() {}\nfunc TestP9Unknown() {}\n",
		"a/a.go":                  "package a\nfunc TestP10NotATest() {}\n",
		"a/testdata/S06_race.txt": "",
		"a/testdata/S07_late.txt": "",
		"a/testdata/S08_late.md":  "",
		"a/S09_late.txt":          "",
	})
	expect(t, checkRules(m),
		"rules.md:8: P5 is planned and names tests",
		"rules.md:9: P6 is \"done\"",
		"rules.md:10: P7 promises nothing",
		"rules.md:11: P7 stands here twice",
		"rules.md:12: \"X7\" is not the number of a rule",
		"rules.md:13: a row has 3 cells",
		"a/a_test.go:4: TestP9Unknown names P9",
		"a/testdata/S07_late.txt:1: S07_late.txt names S07",
		"rules.md:5: P2 is built and names TestP2Gone, which doesn't exist",
		"rules.md:6: P3 is built and names no test",
		"rules.md:7: P4 is built and no test carries its number",
	)
}

func TestRulesPageUpdates(t *testing.T) {
	m := fixture(t, map[string]string{
		rulesPage: "Text.\n" + pageHead +
			"| P1 | It holds. | built | `TestP1Old` |\n" +
			"| P2 | It holds. | planned | |\n" +
			"| P3 | It holds. | built | |\n",
		"a/a_test.go":            "package a\nfunc TestP1D() {}\nfunc TestP1C() {}\nfunc TestP1_P2B() {}\nfunc TestP1A() {}\n",
		"b/b_test.go":            "package b\nfunc TestP1C() {}\nfunc TestP1E() {}\n",
		"b/testdata/P3_late.txt": "",
	})
	want := "Text.\n" + pageHead +
		"| P1 | It holds. | built | `TestP1A`, `TestP1C`, `TestP1D` and 2 more |\n" +
		"| P2 | It holds. | planned | |\n" +
		"| P3 | It holds. | built | `P3_late.txt` |\n"
	if got := string(updateRules(m)); got != want {
		t.Errorf("updated page is\n%s\nwant\n%s", got, want)
	}
}
