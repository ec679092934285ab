package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// maxTypos is how many letters may be wrong in a word for which another is proposed.
const maxTypos = 2

// didYouMean proposes the known word that is nearest to one that isn't known; "" when
// none is near.
func didYouMean(word string, known []string) string {
	best, least := "", maxTypos+1
	for _, k := range known {
		if n := typos(word, k); n < least {
			best, least = k, n
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// typos is how many letters must be added, taken away or changed to make one word of
// the other.
func typos(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0] // of the row before
		row[0] = i + 1
		for j := range len(b) {
			n := left
			if a[i] != b[j] {
				n = 1 + min(left, row[j], row[j+1])
			}
			left, row[j+1] = row[j+1], n
		}
	}
	return row[len(b)]
}

// strayVariables are the environment's PYRULA_ variables that nothing reads, each as a
// sentence. A mistyped one would be a setting that is silently not there.
func strayVariables(environ []string) []string {
	known := []string{configVariable}
	for _, s := range settings {
		known = append(known, s.env())
	}
	var stray []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) && !ofService(name) {
			stray = append(stray, name+" is no setting"+didYouMean(name, known))
		}
	}
	slices.Sort(stray)
	return stray
}

// ofService says that Kubernetes sets a variable, for a service called pyrula.
func ofService(name string) bool {
	return strings.Contains(name, "_SERVICE_") || strings.Contains(name, "_PORT")
}

// flagFault is the error of a flag's value in words that mean something to whoever
// typed it.
func flagFault(err error) error {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	want := wrong.Unwrap().Error()
	switch f := wrong.GetFlag(); f.Value.Type() {
	case "int":
		want = "want a whole number"
	case "duration":
		want = wantDuration
	}
	return fmt.Errorf("--%s %q: %s", wrong.GetFlag().Name, wrong.GetValue(), want)
}

// wantDuration says how a time is written.
const wantDuration = "want a time with its unit, as 500ms, 30s or 1m30s"
