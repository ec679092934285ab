package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pyrula/pyrula-node/bench/load"
)

// comparison says what a larger backlog costs, from repetitions that took turns.
type comparison struct {
	Compare string    `json:"compare"`
	Variant string    `json:"variant"`
	Clients int       `json:"clients"`
	Keys    int       `json:"keys"`
	Base    int       `json:"base_backlog"`
	With    int       `json:"backlog"`
	Ratio   float64   `json:"ratio"` // median of ratios
	Ratios  []float64 `json:"ratios"`
	CPU     float64   `json:"server_cpu_ratio,omitempty"` // median of ratios of the server's CPU time per cycle
}

// standing measures with each backlog in turn, each on a server of its own that is
// filled once, and compares all with the first.
func (b *bench) standing(ctx context.Context, j job, clients int) (err error) {
	targets := make([]target, len(b.backlog))
	for i, n := range b.backlog {
		if targets[i], err = b.open(j, openGates); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, targets[i].close()) }()
		if err := fill(targets[i].job, n); err != nil {
			return err
		}
	}
	reps := make([][]load.Repetition, len(targets))
	for r := range b.reps {
		for i, t := range targets {
			p := b.plan(t, clients)
			if r == b.reps-1 {
				b.profiled(&p, t, fmt.Sprintf("backlog%d-batch%d-clients%d", b.backlog[i], j.batch, clients))
			}
			rep, err := b.repeat(func() (load.Repetition, error) { return b.measure(ctx, p) })
			if err != nil {
				return err
			}
			reps[i] = append(reps[i], rep)
		}
	}
	for i, n := range b.backlog {
		res := b.result(j, clients)
		res.Backlog = n
		res.Fold(reps[i])
		if err := load.Write(b.out, res); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		c := comparison{Compare: "backlog", Variant: j.variant(), Clients: clients, Keys: j.keys, Base: b.backlog[0], With: n}
		c.Ratios, c.Ratio = load.Ratios(reps[i], reps[0], load.Throughput)
		_, c.CPU = load.Ratios(reps[i], reps[0], load.ServerMicros)
		if err := load.Write(b.out, c); err != nil {
			return err
		}
	}
	return nil
}
