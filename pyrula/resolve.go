package pyrula

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// maxCandidateLists bounds the lists of candidates that wait for their keys. What has no
// room is dropped: the node asks again.
const maxCandidateLists = 16

// ask takes candidates in for the one goroutine that computes keys, so that a slow key
// function holds no claim back.
func (s *shift) ask(candidates []wire.Candidate) {
	select {
	case s.candidates <- candidates:
	default:
	}
}

// resolves computes keys until the shift ends.
func (s *shift) resolves() {
	for {
		select {
		case list := <-s.candidates:
			for some := range slices.Chunk(list, wire.MaxBatch) {
				s.resolve(some)
			}
		case <-s.base.Done():
			return
		}
	}
}

// resolve computes the keys of queued runs that this worker's newer gates may hand on, and
// tells the node. The worker holds none of them. An answer that is lost does no harm: the
// node asks again.
func (s *shift) resolve(candidates []wire.Candidate) {
	body := wire.Resolve{Worker: s.w.cfg.Name, Runs: make([]wire.Resolution, 0, len(candidates))}
	for i := range candidates {
		c := &candidates[i]
		d := s.w.definitions[c.Workflow]
		if d == nil {
			continue
		}
		r := wire.Resolution{RunID: c.RunID, Version: c.Version, GatesHash: c.GatesHash}
		keys, err := d.keys(c.Params)
		if err != nil {
			r.Problem = cut(err.Error(), flow.MaxErrorMessageBytes)
		} else {
			r.Keys = keys
		}
		body.Runs = append(body.Runs, r)
	}
	if len(body.Runs) == 0 {
		return
	}
	req := request{method: http.MethodPost, path: wire.PathResolve, body: body}
	if err := s.w.client.call(s.base, &req, nil); err != nil && s.base.Err() == nil {
		s.log.warn("tell the keys of runs that are to be handed on", err)
	}
}

// keysOf computes function keys from encoded parameters. A panic of the user's code, of a
// key function or in decoding, is an error.
func keysOf[In any](d *definition, keys resolver[In]) func(json.RawMessage) (*wire.StampKeys, error) {
	return func(params json.RawMessage) (out *wire.StampKeys, err error) {
		defer func() {
			if p := recover(); p != nil {
				out, err = nil, fmt.Errorf("panic: %v", p)
			}
		}()
		var in In
		if err := json.Unmarshal(params, &in); err != nil {
			return nil, fmt.Errorf("decode params into %v: %w", d.input, err)
		}
		stamp, err := keys.stamp(d, in)
		switch {
		case err != nil:
			return nil, err
		case stamp == nil:
			return nil, errors.New("the workflow has no function key")
		}
		return stamp.Keys, nil
	}
}
