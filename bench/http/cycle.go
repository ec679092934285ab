package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/pyrula/pyrula-node/bench/load"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// claimWaitMS is how long a claim waits for a run; one is always there soon, since
// each client submits before it claims.
const claimWaitMS = 1000

// job is what all clients of a repetition do.
type job struct {
	host     string // host:port of the node
	workflow string
	keys     int
	batch    int
	fused    bool
	ended    func([]held) // told of runs that were completed, unless fused; or nil
}

// client submits, claims and completes on one connection.
type client struct {
	job
	conn  *conn
	rng   *rand.Rand
	claim []byte
	body  []byte
	keysN []int
	held  []held
	begin time.Time // of the cycle that the fused variant completes next

	claimed func(begin, end time.Time) // told of claims that stand alone; or nil
}

// connect makes the client of a number.
func (j job) connect(id int) (load.Client, error) {
	c, err := j.client(id)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (j job) client(id int) (*client, error) {
	c, err := dial(j.host)
	if err != nil {
		return nil, err
	}
	return &client{
		job: j, conn: c, rng: rand.New(rand.NewPCG(uint64(id), 7477)), keysN: make([]int, j.batch),
		claim: claimBody("w"+strconv.Itoa(id), j.workflow, j.batch, claimWaitMS),
	}, nil
}

// Close implements load.Client.
func (c *client) Close() error { return c.conn.Close() }

func (c *client) post(path string, body []byte) ([]byte, error) {
	return c.conn.do("POST", path, body)
}

// Cycle implements load.Client: submit, claim, complete; or, fused, submit, and
// complete what was claimed before together with the next claim.
func (c *client) Cycle(r *load.Recorder) error {
	begin := time.Now()
	if err := c.submit(); err != nil {
		return err
	}
	if c.fused && len(c.held) > 0 {
		return c.completeAndClaim(r, begin)
	}
	if err := c.take(r); err != nil {
		return err
	}
	if c.fused || len(c.held) == 0 {
		c.begin = begin
		return nil
	}
	n := len(c.held)
	if err := c.complete(nil); err != nil {
		return err
	}
	if c.ended != nil {
		c.ended(c.held)
	}
	c.held = c.held[:0]
	r.Completed(begin, time.Now(), n)
	return nil
}

func (c *client) submit() error {
	if c.batch == 1 {
		c.body = appendSubmit(c.body[:0], c.rng.IntN(c.keys))
		_, err := c.post(wire.PathWorkflows+"/"+c.workflow+"/runs", c.body)
		return err
	}
	for i := range c.keysN {
		c.keysN[i] = c.rng.IntN(c.keys)
	}
	c.body = appendBatch(c.body[:0], c.workflow, c.keysN)
	answer, err := c.post(wire.PathBatch, c.body)
	if err != nil {
		return err
	}
	return refused(answer)
}

// take claims as many runs as a batch has.
func (c *client) take(r *load.Recorder) error {
	begin := time.Now()
	answer, err := c.post(wire.PathClaims, c.claim)
	if err != nil {
		return err
	}
	end := time.Now()
	if c.held, err = grants(c.held[:0], answer); err != nil {
		return err
	}
	r.Claimed(begin, end, len(c.held))
	if c.claimed != nil {
		c.claimed(begin, end)
	}
	return nil
}

// complete ends what is held, and claims too unless claim is nil.
func (c *client) complete(claim []byte) error {
	path := wire.PathCompletion
	if c.batch == 1 {
		path = wire.PathRuns + "/" + c.held[0].id + "/complete"
		c.body = appendComplete(c.body[:0], c.held[0].fence, claim)
	} else {
		c.body = appendCompletions(c.body[:0], c.held, claim)
	}
	answer, err := c.post(path, c.body)
	if err != nil {
		c.held = c.held[:0] // whoever else holds them now, it isn't this client
		return err
	}
	if err := refused(answer); err != nil {
		c.held = c.held[:0]
		return err
	}
	if claim != nil {
		c.held, err = grants(c.held[:0], answer)
	}
	return err
}

func (c *client) completeAndClaim(r *load.Recorder, submitted time.Time) error {
	n, sent := len(c.held), time.Now()
	if err := c.complete(c.claim); err != nil {
		return err
	}
	end := time.Now()
	r.Claimed(sent, end, len(c.held))
	r.Completed(c.begin, end, n)
	c.begin = submitted
	return nil
}

// variant names what a client does.
func (j job) variant() string {
	name := "http, 3 requests a cycle"
	if j.fused {
		name = "http, complete and claim in one request"
	}
	if j.batch > 1 {
		name += fmt.Sprintf(", %d runs a request", j.batch)
	}
	return name
}
