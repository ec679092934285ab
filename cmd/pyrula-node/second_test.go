package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestSecondNodeHarmsNobody fails when a node that finds its directory taken changes
// anything in it, ends with another code than 1, doesn't say why, or when the first
// doesn't go on as if nothing had been.
func TestSecondNodeHarmsNobody(t *testing.T) {
	w, dir := newWitness(t), t.TempDir()
	w.serve(dir)
	w.declare("sync", oneSlot)
	w.submitMany(2, "sync", `{"k":"a"}`)
	grant := w.one("sync")
	before := imageOf(t, dir)
	for range 2 {
		second := spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0")
		if code := second.exit(); code != exitOther {
			t.Errorf("the second node ends with %d, want 1:\n%s", code, second.said())
		}
		second.says(regexp.QuoteMeta(dir) + ".* is in use by another process")
	}
	sameImage(t, before, imageOf(t, dir))
	if !w.beat(grant) {
		t.Error("the first node doesn't know its holder any more")
	}
	w.complete(grant)
	w.complete(w.one("sync"))
	w.again(dir)
	w.remembers()
}

// TestOneOfTwoStarts fails when of nodes that start at the same instant on one
// directory, new or old, not exactly one serves, or when the others say nothing
// sensible.
func TestOneOfTwoStarts(t *testing.T) {
	dir := t.TempDir()
	w := newWitness(t)
	for round := range 4 {
		dir := filepath.Join(dir, fmt.Sprint(round/2)) // new, and then not
		var all []*child
		for range 3 {
			all = append(all, spawn(t, "serve", "--data", dir, "--addr", "127.0.0.1:0"))
		}
		w.node = nil
		for _, n := range all {
			n.says(`msg=ready url=|is in use by another process`)
			if served := regexp.MustCompile(`msg=ready`).MatchString(n.said()); !served {
				if code := n.exit(); code != exitOther {
					t.Errorf("a node that finds its directory taken ends with %d:\n%s", code, n.said())
				}
				continue
			}
			if w.node != nil {
				t.Fatalf("two nodes serve one directory:\n%s\n%s", w.node.said(), n.said())
			}
			w.attend(n)
		}
		if w.node == nil {
			t.Fatal("no node serves")
		}
		w.remembers()
		w.submit("free", `{}`)
		w.node.kill()
		if round%2 == 1 {
			w.runs = nil // the next directory is another one
		}
	}
}

// imageOf is the content of every file below a directory.
func imageOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(name)
		out[name] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sameImage fails for each file that isn't what it was.
func sameImage(t *testing.T, before, after map[string]string) {
	t.Helper()
	for name, was := range before {
		if is, there := after[name]; !there || is != was {
			t.Errorf("%s had %d bytes and has %d, or others (is there: %t)", name, len(was), len(is), there)
		}
	}
	for name := range after {
		if _, there := before[name]; !there {
			t.Errorf("%s is new", name)
		}
	}
}
