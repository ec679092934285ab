package pyrula_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
)

func charge(*pyrula.Run, order) (receipt, error) { return receipt{}, nil }

type orderKey func(order) string

// TestP57DeclarationOutOfRange: each wrong declaration is an ErrConfiguration that
// names its field, from everything that uses the workflow, and nothing reaches the
// node.
func TestP57DeclarationOutOfRange(t *testing.T) {
	tenant := func(o order) string { return o.Tenant }
	cases := []struct {
		field string
		wf    *pyrula.Workflow[order, receipt]
	}{
		{"limit.max", pyrula.Define("x", charge, pyrula.Limit{Key: "tenant"})},
		{"limit.max", pyrula.Define("x", charge, pyrula.Limit{Key: "tenant", Max: -1})},
		{"limit.max", pyrula.Define("x", charge, pyrula.Limit{Key: "tenant", Max: 1_000_000_001})},
		{"limit.key", pyrula.Define("x", charge, pyrula.Limit{Max: 1})},
		{"limit.key", pyrula.Define("x", charge, pyrula.Limit{Key: "", Max: 1})},
		{"limit.key", pyrula.Define("x", charge, pyrula.Limit{Key: 7, Max: 1})},
		{"limit.key", pyrula.Define("x", charge, pyrula.Limit{Key: (func(order) string)(nil), Max: 1})},
		{"limit.key", pyrula.Define("x", charge, pyrula.Limit{Key: func(receipt) string { return "" }, Max: 1})},
		{"limit.key", pyrula.Define("x", charge, pyrula.Limit{Key: func(order) int { return 1 }, Max: 1})},
		{"limit.key", pyrula.Define("x", charge, pyrula.Limit{Key: func(order) (string, int) { return "", 1 }, Max: 1})},
		{"limit.key", pyrula.Define("x", charge, pyrula.Limit{Key: func() string { return "" }, Max: 1})},
		{"limit.key", pyrula.Define("x", charge, pyrula.Limit{Key: func(...order) string { return "" }, Max: 1})},
		{"limit.key must", pyrula.Define("x", charge, pyrula.Limit{Key: "cel:", Max: 1})},
		{"limit.key", pyrula.Define("x", charge, pyrula.Limit{Key: strings.Repeat("k", 129), Max: 1})},
		{"limit.label", pyrula.Define("x", charge, pyrula.Limit{Key: "tenant", Label: "l", Max: 1})},
		{"limit.key.function", pyrula.Define("x", charge, pyrula.Limit{Key: tenant, Label: "a\nb", Max: 1})},
		{"limit ", pyrula.Define("x", charge, pyrula.Limit{Key: "id", Max: 1}, pyrula.Limit{Key: "tenant", Max: 1})},
		{"rate.per_second", pyrula.Define("x", charge, pyrula.Rate{Key: "tenant"})},
		{"rate.per_second", pyrula.Define("x", charge, pyrula.Rate{Key: "tenant", PerSecond: -1})},
		{"rate.per_second", pyrula.Define("x", charge, pyrula.Rate{Key: "tenant", PerSecond: math.NaN()})},
		{"rate.per_second", pyrula.Define("x", charge, pyrula.Rate{Key: "tenant", PerSecond: math.Inf(1)})},
		{"rate.burst", pyrula.Define("x", charge, pyrula.Rate{Key: "tenant", PerSecond: 1, Burst: -1})},
		{"rate.key", pyrula.Define("x", charge, pyrula.Rate{PerSecond: 1})},
		{"rate ", pyrula.Define("x", charge, pyrula.Rate{Key: "id", PerSecond: 1}, pyrula.Rate{Key: "id", PerSecond: 2})},
		{"version", pyrula.Define("x", charge, pyrula.Version("a\x00"))},
		{"max_attempts", pyrula.Define("x", charge, pyrula.MaxAttempts(0))},
		{"max_attempts", pyrula.Define("x", charge, pyrula.MaxAttempts(1_000_001))},
		{"retry_backoff_seconds", pyrula.Define("x", charge, pyrula.RetryBackoff(-1))},
		{"retry_backoff_seconds", pyrula.Define("x", charge, pyrula.RetryBackoff(31*24*time.Hour))},
		{"lease_seconds", pyrula.Define("x", charge, pyrula.Lease(999*time.Millisecond))},
		{"lease_seconds", pyrula.Define("x", charge, pyrula.Lease(25*time.Hour))},
		{"name", pyrula.Define("", charge)},
		{"name", pyrula.Define("v1", charge)},
		{"body", pyrula.Define[order, receipt]("x", nil)},
		{"policies[1]", pyrula.Define("x", charge, pyrula.Version("1"), nil)},
	}
	inWorld(t, func(t *testing.T, w *world) {
		for _, c := range cases {
			_, startErr := c.wf.Start(w.Context(), w.client, order{})
			_, entryErr := c.wf.Submission(order{})
			_, declareErr := w.client.Declare(w.Context(), c.wf)
			for _, err := range []error{c.wf.Err(), startErr, entryErr, declareErr, w.client.Work(w.Context(), c.wf)} {
				if !errors.Is(err, pyrula.ErrConfiguration) || !strings.Contains(err.Error(), ": "+c.field) {
					t.Errorf("error %v, want a configuration error of %s", err, c.field)
				}
			}
		}
		if got := len(w.net.to("/v1/workflows/x")) + w.node.count(); got != 0 {
			t.Errorf("%d requests reached the node", got)
		}
	})
}

// TestP57ParamsMustBeAnObject: a type that can't encode as an object is refused
// where it is defined, one that can is not.
func TestP57ParamsMustBeAnObject(t *testing.T) {
	wrong := pyrula.Define("x", func(*pyrula.Run, []string) (int, error) { return 0, nil })
	if err := wrong.Err(); !errors.Is(err, pyrula.ErrConfiguration) || !strings.Contains(err.Error(), "[]string") {
		t.Errorf("In []string: %v, want a configuration error that names the type", err)
	}
	right := []error{
		pyrula.Define("x", func(*pyrula.Run, map[string]int) (int, error) { return 0, nil }).Err(),
		pyrula.Define("x", func(*pyrula.Run, *order) (int, error) { return 0, nil }).Err(),
		pyrula.Define("x", func(*pyrula.Run, any) (int, error) { return 0, nil }).Err(),
		pyrula.Define("x", func(*pyrula.Run, struct{}) (int, error) { return 0, nil }).Err(),
	}
	if err := errors.Join(right...); err != nil {
		t.Error(err)
	}
}

type inner struct {
	Region string `json:"region"`
	Secret string `json:"-"`
}

type outer struct {
	inner
	*order
	Named  inner `json:"named"`
	Plain  string
	Opt    int    `json:",omitempty"` //nolint:tagliatelle // a tag without a name is what is tested
	hidden string //nolint:unused // so is a field that has no name outside
}

type named struct {
	inner `json:"inner"`
	ID    string `json:"id"`
}

type textual struct{ A string }

func (textual) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

// TestP57KeyMustBeAParameter: a key name that no run could have is refused with the
// names that there are; a type that may have any name isn't judged.
func TestP57KeyMustBeAParameter(t *testing.T) {
	want := `limit.key "Tenant" is no parameter of pyrula_test.order: tenant, id`
	if err := pyrula.Define("x", charge, pyrula.Limit{Key: "Tenant", Max: 1}).Err(); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if err := pyrula.Define("x", charge, pyrula.Rate{Key: "region", PerSecond: 1}).Err(); err == nil || !strings.Contains(err.Error(), `: rate.key "region" is no parameter`) {
		t.Errorf("a rate: %v", err)
	}
	for key, ok := range map[string]bool{
		"region": true, "tenant": true, "named": true, "Plain": true, "Opt": true,
		"Secret": false, "inner": false, "order": false, "hidden": false, "plain": false,
	} {
		if err := pyrula.Define("x", func(*pyrula.Run, *outer) (int, error) { return 0, nil }, pyrula.Limit{Key: key, Max: 1}).Err(); (err == nil) != ok {
			t.Errorf("key %q of outer: %v", key, err)
		}
	}
	for key, ok := range map[string]bool{"inner": true, "id": true, "region": false} {
		if err := pyrula.Define("x", func(*pyrula.Run, named) (int, error) { return 0, nil }, pyrula.Limit{Key: key, Max: 1}).Err(); (err == nil) != ok {
			t.Errorf("key %q of named: %v", key, err)
		}
	}
	anyName := pyrula.Limit{Key: "whatever", Max: 1}
	if err := errors.Join(
		pyrula.Define("x", func(*pyrula.Run, map[string]int) (int, error) { return 0, nil }, anyName).Err(),
		pyrula.Define("x", func(*pyrula.Run, any) (int, error) { return 0, nil }, anyName).Err(),
		pyrula.Define("x", func(*pyrula.Run, textual) (int, error) { return 0, nil }, anyName).Err(),
		pyrula.Define("x", func(*pyrula.Run, *textual) (int, error) { return 0, nil }, anyName).Err(),
	); err != nil {
		t.Error(err)
	}
}

// TestP57WorkerSettings: a worker that can't be right is refused before anything is
// sent.
func TestP57WorkerSettings(t *testing.T) {
	good := pyrula.Define("x", charge)
	inWorld(t, func(t *testing.T, w *world) {
		for name, construct := range map[string]func() (*pyrula.Worker, error){
			"no workflow":  func() (*pyrula.Worker, error) { return w.client.NewWorker(pyrula.WorkerConfig{}) },
			"a name twice": func() (*pyrula.Worker, error) { return w.client.NewWorker(pyrula.WorkerConfig{}, good, good) },
			"concurrency":  func() (*pyrula.Worker, error) { return w.client.NewWorker(pyrula.WorkerConfig{Concurrency: -1}, good) },
			"too much": func() (*pyrula.Worker, error) {
				return w.client.NewWorker(pyrula.WorkerConfig{Concurrency: 16385}, good)
			},
			"a worker's name": func() (*pyrula.Worker, error) { return w.client.NewWorker(pyrula.WorkerConfig{Name: "a\nb"}, good) },
		} {
			if _, err := construct(); !errors.Is(err, pyrula.ErrConfiguration) {
				t.Errorf("%s: %v, want a configuration error", name, err)
			}
		}
	})
}

// TestDeclarationOnTheWire: what is declared beside a body is what the node gets.
func TestDeclarationOnTheWire(t *testing.T) {
	wf := pyrula.Define("charge", charge,
		pyrula.Limit{Key: "tenant", Max: 2},
		pyrula.Rate{Key: func(o order) string { return o.Tenant }, Label: "by_tenant", PerSecond: 0.5, Burst: 3},
		pyrula.Version("2"), pyrula.MaxAttempts(3), pyrula.RetryBackoff(1500*time.Millisecond), pyrula.Lease(10*time.Second),
	)
	plain := pyrula.Define("plain", charge, pyrula.Limit{Key: orderKey(func(o order) string { return o.ID }), Max: 1})
	inWorld(t, func(t *testing.T, w *world) {
		if _, err := w.client.Declare(w.Context(), wf, plain); err != nil {
			t.Fatal(err)
		}
		want := `{"version":"2","limit":{"key":"tenant","max":2},"rate":{"key":{"function":"by_tenant"},"per_second":0.5,"burst":3},` +
			`"max_attempts":3,"retry_backoff_seconds":1.5,"lease_seconds":10}`
		if got := string(w.net.to("/v1/workflows/charge")[0].body); got != want {
			t.Errorf("declared\n%s, want\n%s", got, want)
		}
		want = `{"version":"","limit":{"key":{"function":"limit"},"max":1}}`
		if got := string(w.net.to("/v1/workflows/plain")[0].body); got != want {
			t.Errorf("declared %s, want %s", got, want)
		}
	})
}
