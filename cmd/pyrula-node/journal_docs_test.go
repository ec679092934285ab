package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pyrula/pyrula-node/flow"
)

// TestGuaranteesNameTests fails when docs/guarantees.md names a test that doesn't
// exist.
func TestGuaranteesNameTests(t *testing.T) {
	declared := map[string]bool{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "func Test"); ok {
				name, _, _ = strings.Cut(name, "(")
				declared["Test"+name] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(readFile(t, "docs/guarantees.md"), -1)
	if len(named) < 20 {
		t.Errorf("the page names %d tests", len(named))
	}
	for _, name := range named {
		if !declared[name[1]] {
			t.Errorf("there is no %s", name[1])
		}
	}
}

// TestJournalFormatNamesEveryRecord fails when docs/journal-format.md lacks a kind of
// record, or has one that isn't.
func TestJournalFormatNamesEveryRecord(t *testing.T) {
	page := readFile(t, "docs/journal-format.md")
	_, table, _ := strings.Cut(page, "| kind | name | fields |")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := 0
	for k := range flow.RecVolatile {
		if !k.Known() {
			continue
		}
		rows++
		if !strings.Contains(table, fmt.Sprintf("\n| %d | %s | ", k, k)) {
			t.Errorf("no row %d %s", k, k)
		}
	}
	if n := strings.Count(table, "\n| ") - 1; n != rows { // one is the line below the head
		t.Errorf("%d rows for %d kinds", n, rows)
	}
	if !strings.Contains(strings.ReplaceAll(page, "\n", " "), "Flags, from bit 0: "+strings.Join(flagWords[:], ", ")+".") {
		t.Errorf("the flags are %v", flagWords)
	}
}
