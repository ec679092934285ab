package schedule

import (
	"bytes"

	"github.com/pyrula/pyrula-node/flow"
)

// MaxParamsBytes bounds the params of a schedule: they stay in memory, and each of its
// runs gets a copy.
const MaxParamsBytes = 64 << 10

// MaxCatchUp bounds the runs that CatchUpAll makes for times that have come meanwhile.
const MaxCatchUp = 100

// CatchUp says what becomes of times that have come unseen. The numbers stand in
// journals: they are never given a new meaning.
type CatchUp uint8

// The policies.
const (
	CatchUpOne  CatchUp = 1 // one run for all of them, for the last
	CatchUpNone CatchUp = 2 // no run for a time that isn't on time any more
	CatchUpAll  CatchUp = 3 // a run for each of the latest MaxCatchUp, the oldest first
)

// ParseCatchUp reads the name of a policy; no name is the default, one. Error:
// *flow.FieldError.
func ParseCatchUp(name string) (CatchUp, error) {
	switch name {
	case "", "one":
		return CatchUpOne, nil
	case "none":
		return CatchUpNone, nil
	case "all":
		return CatchUpAll, nil
	}
	return 0, flow.Invalid("catch_up", "must be one, none or all")
}

// String is the policy's name.
func (c CatchUp) String() string {
	switch c {
	case CatchUpNone:
		return "none"
	case CatchUpAll:
		return "all"
	case CatchUpOne:
	}
	return "one"
}

// Definition is what a schedule was declared to be. It is never changed once made.
type Definition struct {
	Workflow string
	Params   []byte // compact JSON
	Spec     Spec
	CatchUp  CatchUp
	Paused   bool
}

// Same says whether two definitions declare the same thing.
func (d *Definition) Same(o *Definition) bool {
	return d.Workflow == o.Workflow && bytes.Equal(d.Params, o.Params) &&
		d.Spec == o.Spec && d.CatchUp == o.CatchUp && d.Paused == o.Paused
}
