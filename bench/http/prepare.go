package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pyrula/pyrula-node/flow/wire"
)

// policy are the limits that every run is submitted under.
type policy struct {
	max  int // Limit
	rate int // per second and burst; 0 is no Rate

	trigger string // in place of the gates, as JSON; empty for none
}

// openGates never bind: what is measured is the bookkeeping.
var openGates = policy{max: 1000, rate: 1_000_000}

// declaration is the body of PUT /v1/workflows/{name}.
func (p policy) declaration() []byte {
	if p.trigger != "" {
		return []byte(`{"version":"1","trigger":` + p.trigger + `}`)
	}
	b := fmt.Appendf(nil, `{"version":"1","limit":{"key":"tenant","max":%d}`, p.max)
	if p.rate > 0 {
		b = fmt.Appendf(b, `,"rate":{"key":"tenant","per_second":%d,"burst":%d}`, p.rate, p.rate)
	}
	return append(b, '}')
}

// declare declares the workflow of a job.
func declare(j job, p policy) error {
	c, err := dial(j.host)
	if err != nil {
		return err
	}
	_, err = c.do("PUT", wire.PathWorkflows+"/"+j.workflow, p.declaration())
	return errors.Join(err, c.Close())
}

// fillers are the connections that fill a queue.
const fillers = 4

// fill submits n runs, spread evenly over the job's keys.
func fill(j job, n int) error {
	var next atomic.Int64
	errs := make([]error, fillers)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = fillSome(j, &next, int64(n)) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("fill the queue with %d runs: %w", n, err)
	}
	return nil
}

// fillSome submits batches until all fillers together have taken up n runs.
func fillSome(j job, next *atomic.Int64, n int64) error {
	c, err := dial(j.host)
	if err != nil {
		return err
	}
	var body []byte
	var keys []int
	for err == nil {
		from := next.Add(wire.MaxBatch) - wire.MaxBatch
		if from >= n {
			break
		}
		keys = keys[:0]
		for i := from; i < min(from+wire.MaxBatch, n); i++ {
			keys = append(keys, int(i)%j.keys)
		}
		body = appendBatch(body[:0], j.workflow, keys)
		var answer []byte
		if answer, err = c.do("POST", wire.PathBatch, body); err == nil {
			err = refused(answer)
		}
	}
	return errors.Join(err, c.Close())
}
