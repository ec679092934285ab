package flow

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var byTenant = KeySource{Name: "tenant"}

// refusal is the field that an error names, or "" for none; the error must be of
// the family of configuration errors.
func refusal(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	f, ok := errors.AsType[*FieldError](err)
	if !ok || !errors.Is(err, ErrConfiguration) || f.Want == "" {
		t.Fatalf("error %#v names no field or isn't a configuration error", err)
	}
	return f.Field
}

// Fails when a Limit's bound isn't where the rule puts it.
func TestP57LimitBounds(t *testing.T) {
	for _, c := range []struct {
		max  int64
		want string
	}{
		{math.MinInt64, "limit.max"}, {-1, "limit.max"}, {0, "limit.max"}, {1, ""}, {2, ""},
		{MaxLimit, ""}, {MaxLimit + 1, "limit.max"}, {math.MaxInt64, "limit.max"},
	} {
		if got := refusal(t, Limit{Key: byTenant, Max: c.max}.Validate("limit")); got != c.want {
			t.Errorf("max %d: refused for %q, want %q", c.max, got, c.want)
		}
	}
}

// Fails when a Rate's bound isn't where the rule puts it; NaN and the infinities
// lie outside all bounds.
func TestP57RateBounds(t *testing.T) {
	slowest := float64(Second) / float64(MaxInterval)
	for _, c := range []struct {
		perSecond float64
		burst     int64
		want      string
	}{
		{math.NaN(), 1, "rate.per_second"}, {math.Inf(1), 1, "rate.per_second"}, {math.Inf(-1), 1, "rate.per_second"},
		{-1, 1, "rate.per_second"}, {math.Copysign(0, -1), 1, "rate.per_second"}, {0, 1, "rate.per_second"},
		{math.SmallestNonzeroFloat64, 1, "rate.per_second"}, {slowest * 0.999, 1, "rate.per_second"},
		{slowest, 1, ""}, {0.5, 0, ""}, {1, 1, ""}, {MaxPerSecond, 0, ""}, {MaxPerSecond, MaxBurst, ""},
		{math.Nextafter(MaxPerSecond, 2e9), 1, "rate.per_second"}, {math.MaxFloat64, 1, "rate.per_second"},
		{1, -1, "rate.burst"}, {1, math.MinInt64, "rate.burst"}, {1, MaxBurst, ""},
		{1, MaxBurst + 1, "rate.burst"}, {1, math.MaxInt64, "rate.burst"},
		// A bucket of 100 years is the largest.
		{1.0 / 86400, 36500, ""}, {1.0 / 86400, 36501, "rate.burst"}, {slowest, MaxBurst, "rate.burst"},
	} {
		if got := refusal(t, Rate{Key: byTenant, PerSecond: c.perSecond, Burst: c.burst}.Validate("rate")); got != c.want {
			t.Errorf("%v a second, burst %d: refused for %q, want %q", c.perSecond, c.burst, got, c.want)
		}
	}
}

// Fails when a key source is taken that isn't a name or a function, or one that
// reads like the other in one text (P82).
func TestP57KeySources(t *testing.T) {
	long := strings.Repeat("n", MaxNameBytes)
	for _, c := range []struct {
		name, function, want string
	}{
		{"tenant", "", ""}, {"", "tenant", ""}, {long, "", ""}, {"", long, ""}, {"ключ", "", ""}, {"a b", "", ""},
		{"", "", "limit.key"}, {"a", "b", "limit.key"}, {long + "n", "", "limit.key"},
		{"", long + "n", "limit.key.function"}, {"a\x00", "", "limit.key"}, {"", "a\n", "limit.key.function"},
		{"cel:params.a", "", ""}, {"cel:" + strings.Repeat("e", MaxExpressionBytes), "", ""}, {"cel", "", ""}, {"cel:", "", "limit.key"},
		{"cel:" + strings.Repeat("e", MaxExpressionBytes+1), "", "limit.key"}, {"cel:a", "b", "limit.key"}, {"", "cel:a", ""}, {"\xff", "", "limit.key"}, {"function:label", "", "limit.key"},
		{"", "function:label", ""}, {"functional", "", ""},
	} {
		k := KeySource{Name: c.name, Function: c.function}
		if got := refusal(t, Limit{Key: k, Max: 1}.Validate("limit")); got != c.want {
			t.Errorf("%+v: refused for %q, want %q", k, got, c.want)
		}
		if got := refusal(t, Rate{Key: k, PerSecond: 1}.Validate("limit")); got != c.want {
			t.Errorf("%+v of a rate: refused for %q, want %q", k, got, c.want)
		}
	}
}

// Fails when the default burst isn't the rate rounded up, or the interval isn't the
// whole nanoseconds that the rate means (P4, P55).
func TestP55IntervalAndDefaultBurst(t *testing.T) {
	for _, c := range []struct {
		perSecond float64
		interval  Span
		burst     int64
	}{
		{0.5, 2 * Second, 1}, {1, Second, 1}, {1.5, 666_666_667, 2}, {5, 200 * Millisecond, 5},
		{1.0 / 3, 3 * Second, 1}, {2.0 / 3, 1_500_000_000, 1}, {0.004, 250 * Second, 1}, {0.1, 10 * Second, 1},
		{600, 1_666_667, 600}, {1e3, Millisecond, 1000}, {1e9, 1, 1e9}, {1e9 - 0.1, 2, 1e9}, {3e8, 4, 3e8},
		{1.0 / 86400, Day, 1},
	} {
		r := Rate{Key: byTenant, PerSecond: c.perSecond}
		rule := RuleOfRate(r)
		if rule.Interval != c.interval || rule.Burst != c.burst || rule.Kind != GateRate || rule.Key != byTenant || rule.Max != 0 {
			t.Errorf("%v a second is %+v, want interval %d, burst %d", c.perSecond, rule, c.interval, c.burst)
		}
		r.Burst = 7
		if got := RuleOfRate(r).Burst; got != 7 {
			t.Errorf("%v a second: burst 7 became %d", c.perSecond, got)
		}
	}
	if got := RuleOfLimit(Limit{Key: byTenant, Max: 3}); got != (Rule{Kind: GateLimit, Key: byTenant, Max: 3}) {
		t.Errorf("a limit of 3 is %+v", got)
	}
}

// legalRate draws rates over their whole range, and those that people write.
var legalRate = rapid.OneOf(
	rapid.Float64Range(float64(Second)/float64(MaxInterval), MaxPerSecond),
	rapid.Custom(func(t *rapid.T) float64 {
		return float64(rapid.Int64Range(1, 10_000).Draw(t, "starts")) / float64(rapid.Int64Range(1, 100_000).Draw(t, "in seconds"))
	}),
)

// Fails when an interval is too short for its rate by more than rounding can be
// seen, so that a run could start early, or longer than rounding makes it.
func TestP55IntervalIsNeverTooShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := legalRate.Draw(t, "per second")
		exact := float64(Second) / x
		got := float64(Rate{PerSecond: x}.Interval())
		if got < exact*(1-2e-12) || got >= exact*(1+2e-12)+1 {
			t.Fatalf("%v a second: interval %v, exactly %v", x, got, exact)
		}
	})
}

// Fails when the rate that is shown for an interval doesn't declare that interval.
func TestPerSecondDeclaresTheSameInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		interval := Rate{PerSecond: legalRate.Draw(t, "per second")}.Interval()
		if back := (Rate{PerSecond: PerSecond(interval)}).Interval(); back != interval {
			t.Fatalf("interval %d shows as %v, which declares %d", interval, PerSecond(interval), back)
		}
	})
	for _, x := range []float64{0.5, 1, 2, 5, 0.004, 0.1, 0.3, 600, 1000, 1e9, 1e-7, 1234.5, 0.12345} {
		if got := PerSecond(Rate{PerSecond: x}.Interval()); got != x {
			t.Errorf("%v a second shows as %v", x, got)
		}
	}
	if got := strconv.FormatFloat(PerSecond(3*Second), 'g', -1, 64); got != "0.333333333333" {
		t.Errorf("one in 3 s shows as %s a second", got)
	}
}

// Fails when a name is taken or refused against the rule.
func TestNames(t *testing.T) {
	for name, c := range map[string]struct {
		s    string
		want bool
	}{
		"empty": {"", false}, "one byte": {"a", true}, "128 bytes": {strings.Repeat("x", 128), true},
		"129 bytes": {strings.Repeat("x", 129), false}, "64 runes of 2 bytes": {strings.Repeat("é", 64), true},
		"65 runes of 2 bytes": {strings.Repeat("é", 65), false}, "space": {" ", true}, "slash": {"a/b", true},
		"NUL": {"a\x00b", false}, "tab": {"\t", false}, "newline": {"a\n", false}, "0x1f": {"\x1f", false},
		"0x7e": {"~", true}, "DEL": {"\x7f", false}, "U+0080": {"\u0080", false}, "U+009F": {"\u009f", false},
		"U+00A0": {"\u00a0", true}, "U+FFFD itself": {"\uFFFD", true}, "bad UTF-8": {"a\xff", false},
		"cut rune": {"\xe2\x82", false}, "U+FFFD, then bad": {"\uFFFD\xff", false}, "surrogate": {"\xed\xa0\x80", false},
	} {
		if got := ValidName(c.s); got != c.want {
			t.Errorf("%s: valid %t, want %t", name, got, c.want)
		}
	}
}

// Fails when a workflow can take the path of something else, or an ordinary name
// that only looks like one is refused.
func TestWorkflowNames(t *testing.T) {
	for s, want := range map[string]string{
		"sync": "", "v1beta": "", "V1": "", "Metrics": "", "readyz2": "", "": "name", "a\x00": "name",
		"v1": "name", "metrics": "name", "livez": "name", "readyz": "name", "healthz": "name", "openapi.json": "name",
	} {
		if got := refusal(t, CheckWorkflowName(s)); got != want {
			t.Errorf("%q: refused for %q, want %q", s, got, want)
		}
	}
}
