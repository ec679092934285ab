package flow

import (
	"strings"
	"testing"
)

// limited is a definition with one Limit, changed by do.
func limited(version string, seen int64, do func(*Definition)) *Definition {
	d := &Definition{Workflow: "sync", Version: version, Seen: seen, Rules: []Rule{{Kind: GateLimit, Key: byTenant, Max: 2}}}
	if do != nil {
		do(d)
	}
	return d
}

// Fails when a worker's gates are taken for those of the stamp though a kind, a key or a
// number is another, or for others though only the version, the rank or the key's value
// is (P27, P77, P82).
func TestP27P77P82Agrees(t *testing.T) {
	stamp := func(do func(*Stamp)) *Stamp {
		s := &Stamp{Version: "1", VersionRank: 1, Gates: []Gate{
			{Kind: GateLimit, KeyName: "tenant", Key: "acme", Max: 2},
			{Kind: GateRate, KeyName: "region", Key: "eu", Interval: Second, Burst: 5},
		}}
		do(s)
		return s
	}
	def := func(rules ...Rule) *Definition { return &Definition{Version: "2", Seen: 2, Rules: rules} }
	limit := Rule{Kind: GateLimit, Key: byTenant, Max: 2}
	rate := Rule{Kind: GateRate, Key: KeySource{Name: "region"}, Interval: Second, Burst: 5}
	both := def(limit, rate)
	same := func(*Stamp) {}
	for name, c := range map[string]struct {
		def   *Definition
		stamp *Stamp
		want  Agreement
	}{
		"equal, newer version":         {both, stamp(same), GatesEqual},
		"another rank":                 {both, stamp(func(s *Stamp) { s.VersionRank = 9 }), GatesEqual},
		"another key value":            {both, stamp(func(s *Stamp) { s.Gates[0].Key = "" }), GatesEqual},
		"another max":                  {both, stamp(func(s *Stamp) { s.Gates[0].Max++ }), GatesDiffer},
		"another interval":             {both, stamp(func(s *Stamp) { s.Gates[1].Interval++ }), GatesDiffer},
		"another burst":                {both, stamp(func(s *Stamp) { s.Gates[1].Burst++ }), GatesDiffer},
		"another key of the Limit":     {both, stamp(func(s *Stamp) { s.Gates[0].KeyName = "Tenant" }), GatesDiffer},
		"another key of the Rate":      {both, stamp(func(s *Stamp) { s.Gates[1].KeyName = "tenant" }), GatesDiffer},
		"another kind, same numbers":   {def(limit, Rule{Kind: GateLimit, Key: rate.Key, Interval: Second, Burst: 5}), stamp(same), GatesDiffer},
		"no Limit on the stamp":        {both, stamp(func(s *Stamp) { s.Gates = s.Gates[1:] }), GatesDiffer},
		"no Rate on the stamp":         {both, stamp(func(s *Stamp) { s.Gates = s.Gates[:1] }), GatesDiffer},
		"no gate on the stamp":         {both, stamp(func(s *Stamp) { s.Gates = nil }), GatesDiffer},
		"no Limit declared":            {def(rate), stamp(same), GatesDiffer},
		"no Rate declared":             {def(limit), stamp(same), GatesDiffer},
		"no gate declared":             {def(), stamp(same), GatesDiffer},
		"a Rate in a Limit's place":    {def(rate), stamp(func(s *Stamp) { s.Gates = s.Gates[:1] }), GatesDiffer},
		"a function in a name's place": {def(Rule{Kind: GateLimit, Key: KeySource{Function: "tenant"}, Max: 2}, rate), stamp(same), GatesDiffer},
		"no gates on either side":      {def(), &Stamp{Version: "1"}, GatesEqual},
		"unknown against none":         {def(), &Stamp{Unknown: true}, GatesEqual},
		"unknown against a Limit":      {def(limit), &Stamp{Unknown: true}, GatesDiffer},
		"unknown against a Rate":       {def(rate), &Stamp{Unknown: true}, GatesDiffer},
	} {
		if got := c.def.Agrees(c.stamp); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// Fails when the key that a function gives is taken for the stamp's without asking the
// workflow's code, or it is asked where the answer is known (P82).
func TestP82FunctionsAreAsked(t *testing.T) {
	byRegion := KeySource{Function: "region"}
	stamp := &Stamp{Version: "1", Gates: []Gate{
		{Kind: GateLimit, KeyName: "tenant", Key: "acme", Max: 2}, {Kind: GateRate, KeyName: "function:region", Key: "eu", Interval: Second, Burst: 5},
	}}
	for name, c := range map[string]struct {
		version string
		max     int64
		rate    KeySource
		want    Agreement
	}{
		"another version":                 {"2", 2, byRegion, GatesUnsure},
		"the same version":                {"1", 2, byRegion, GatesEqual},
		"another label":                   {"2", 2, KeySource{Function: "zone"}, GatesDiffer},
		"a name in the function's place":  {"2", 2, KeySource{Name: "region"}, GatesDiffer},
		"a number differs beside it":      {"2", 3, byRegion, GatesDiffer},
		"a number differs in one version": {"1", 3, byRegion, GatesDiffer},
	} {
		d := &Definition{Version: c.version, Rules: []Rule{
			{Kind: GateLimit, Key: byTenant, Max: c.max}, {Kind: GateRate, Key: c.rate, Interval: Second, Burst: 5},
		}}
		if got := d.Agrees(stamp); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		// The function may come first: what comes behind it is compared all the same.
		d.Rules[0], d.Rules[1] = d.Rules[1], d.Rules[0]
		back := &Stamp{Version: "1", Gates: []Gate{stamp.Gates[1], stamp.Gates[0]}}
		if got := d.Agrees(back); got != c.want {
			t.Errorf("%s, the other way round: %d, want %d", name, got, c.want)
		}
	}
}

// Fails when a definition doesn't agree with the stamp that it gives, whatever its keys
// are: then a run would be handed on to the version that it has.
func TestP77DefinitionAgreesWithItsOwnStamp(t *testing.T) {
	key := "k"
	for name, d := range map[string]*Definition{
		"none": limited("1", 1, func(d *Definition) { d.Rules = nil }), "a name": limited("1", 1, nil), "both": sampleDefinition(),
		"a function": limited("", 0, func(d *Definition) { d.Rules[0].Key = KeySource{Function: "f"} }),
	} {
		keys := Keys{}
		for i := range d.Rules {
			if d.Rules[i].Key.IsFunction() {
				if keys.Limit = &key; d.Rules[i].Kind == GateRate {
					keys = Keys{Rate: &key}
				}
			}
		}
		s, err := d.Stamp([]byte(`{"tenant":"acme"}`), keys)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := d.Agrees(s); got != GatesEqual || d.CompareStamp(s, d.Seen) != 0 {
			t.Errorf("%s: agrees %d, ranks %d", name, got, d.CompareStamp(s, d.Seen))
		}
	}
}

// Fails when a definition ranks otherwise against a stamp than the two versions do, a
// version that nobody remembers is newer than one that is declared, or an unknown stamp
// isn't the lowest (P30, P77, P83).
func TestP30P77P83CompareStamp(t *testing.T) {
	for name, c := range map[string]struct {
		def   *Definition
		stamp *Stamp
		seen  int64
		want  int
	}{
		"a higher number":                       {limited("2", 2, nil), &Stamp{Version: "1"}, 1, 1},
		"a lower number that was seen later":    {limited("1", 9, nil), &Stamp{Version: "2"}, 1, -1},
		"dotted":                                {limited("1.10", 1, nil), &Stamp{Version: "1.9"}, 2, 1},
		"dotted and longer":                     {limited("1.2.1", 1, nil), &Stamp{Version: "1.2"}, 2, 1},
		"a number against dotted":               {limited("2", 1, nil), &Stamp{Version: "1.9"}, 2, 1},
		"the same":                              {limited("2", 2, nil), &Stamp{Version: "2"}, 2, 0},
		"the same, with other gates":            {limited("2", 2, func(d *Definition) { d.Rules = nil }), &Stamp{Version: "2", Gates: []Gate{{Kind: GateLimit}}}, 2, 0},
		"the same, which nobody remembers":      {limited("beta", 4, nil), &Stamp{Version: "beta"}, 0, 0},
		"equal numbers":                         {limited("2", 5, nil), &Stamp{Version: "02"}, 1, 0},
		"a name seen later":                     {limited("beta", 2, nil), &Stamp{Version: "alpha"}, 1, 1},
		"a name seen earlier":                   {limited("alpha", 1, nil), &Stamp{Version: "beta"}, 2, -1},
		"a name against a number":               {limited("beta", 2, nil), &Stamp{Version: "7"}, 1, 1},
		"a number against a name that is newer": {limited("7", 1, nil), &Stamp{Version: "beta"}, 2, -1},
		"a name that nobody remembers":          {limited("beta", 1, nil), &Stamp{Version: "gone"}, 0, 1},
		"unknown, against the first version":    {limited("", 1, nil), &Stamp{Unknown: true}, 0, 1},
		"unknown, and seen":                     {limited("0", 1, nil), &Stamp{Unknown: true, Version: "9"}, 9, 1},
		"no version against the first":          {limited("1", 2, nil), &Stamp{}, 1, 1},
	} {
		if got := c.def.CompareStamp(c.stamp, c.seen); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// Fails when two versions are each newer than the other, so that workers of both would
// pass a run to and fro.
func TestP78P83CompareStampGoesOneWay(t *testing.T) {
	versions := []string{"", "1", "2", "10", "1.9", "1.10", "02", "beta", "v1"}
	for i, a := range versions {
		for k, b := range versions {
			x, y := limited(a, int64(i)+1, nil), limited(b, int64(k)+1, nil)
			there := x.CompareStamp(&Stamp{Version: b}, y.Seen)
			back := y.CompareStamp(&Stamp{Version: a}, x.Seen)
			alike := i == k || strings.TrimLeft(a, "0") == strings.TrimLeft(b, "0") // 2 and 02
			if there != -back || alike != (there == 0) {
				t.Errorf("%q against %q is %d, the other way %d", a, b, there, back)
			}
		}
	}
}

// Fails when the code of a workflow isn't asked for though a key is a function, or is
// though none is (P20).
func TestP20NeedsCode(t *testing.T) {
	function := func(d *Definition) { d.Rules[0].Key = KeySource{Function: "f"} }
	for name, c := range map[string]struct {
		def  *Definition
		want bool
	}{
		"none": {&Definition{}, false}, "a name": {limited("1", 1, nil), false},
		"a function": {limited("1", 1, function), true}, "the second is one": {sampleDefinition(), true},
	} {
		if got := c.def.NeedsCode(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
