package keyexpr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/actors/keyexpr"
	"github.com/pyrula/pyrula-node/flow"
)

const object = `{
	"tenant": "acme", "Region": "EU", "email": "Ann@Example.com", "n": 7, "neg": -3, "zero": -0, "one": 1.0, "half": 0.5, "big": 1e21,
	"yes": true, "none": null, "empty": "", "list": [3, 1.0, "x", null], "nums": [1, 2, 3], "order": {"id": "o-1", "b": {"y": 1, "x": 2}},
	"a-b": "dash", "tags": ["new", "vip"], "twice": 1, "twice": 2, "at": "2026-03-01T23:30:00+01:00", "snow": "x☃y", "<": "&", "in": "wo", "package": "rds"
}`

func evaluator(t testing.TB) *keyexpr.Evaluator {
	t.Helper()
	e, err := keyexpr.New()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// wants is what a refusal says; everything else about it is the same for all.
func wants(t testing.TB, err error) string {
	t.Helper()
	var f *flow.FieldError
	if !errors.As(err, &f) {
		t.Fatalf("error %v is no field error", err)
	}
	if !errors.Is(err, flow.ErrConfiguration) || f.Field != "limit.key" {
		t.Errorf("%v: kind %v, field %s", err, f.Kind, f.Field)
	}
	if len(f.Want) > 600 || strings.ContainsAny(f.Want, "\n\r\t\x00") {
		t.Errorf("%q isn't one short line", f.Want)
	}
	return f.Want
}

func TestP12P60KeysOfExpressions(t *testing.T) {
	e := evaluator(t)
	for expression, want := range map[string]string{
		`params.tenant`: "acme", `event.tenant`: "acme", `params["a-b"]`: "dash", `params["in"] + params.package`: "words", `"all"`: "all", `params.empty`: "", `params.snow`: "x☃y",
		`params.n`: "7", `params.neg`: "-3", `params.zero`: "0", `params.one`: "1", `params.half`: "0.5", `params.big`: "1e+21",
		`1u`: "1", `123456789.0`: "123456789", `-0.0`: "0", `params.yes`: "true", `!params.yes`: "false", `params.none`: "", `null`: "",
		`params.twice`: "2", `params.list`: `[3,1,"x",null]`, `params.order`: `{"b":{"x":2,"y":1},"id":"o-1"}`, `dyn([params["<"], 2.0])`: `["&",2]`,
		`params.order.b.x`: "2", `params.order["b"].y`: "1", `params.nums[2]`: "3", `params.nums[params.nums[0]]`: "2", `params[params.tags[0] + "x"] == 1 || true`: "true",
		`params.tenant + "/" + params.Region.lowerAscii()`: "acme/eu", `params.email.split("@")[1].upperAscii()`: "EXAMPLE.COM",
		`[params.tenant, string(params.n)].join("-")`: "acme-7", `params.tags.join()`: "newvip", `" a ".trim()`: "a", `params.tenant.replace("c", "--")`: "a--me",
		`params.snow.substring(1, 2)`: "☃", `params.snow.substring(2)`: "y", `params.snow.indexOf("y")`: "2", `params.snow.indexOf("q")`: "-1",
		`params.tags.exists(t, t == "vip") ? "vip" : "rest"`: "vip", `params.nums.map(n, string(n * 2)).join(",")`: "2,4,6", `size(params.tags)`: "2",
		`{"acme": "gold"}[params.tenant]`: "gold", `{"x": "gold"}[?params.tenant].orValue("rest")`: "rest", `params.tenant in {"acme": 1} ? 1 : 2`: "1",
		`params.tenant.matches("^a.*e$")`: "true", `params.?tenant.optMap(t, t + "!").orValue("")`: "acme!",
		`timestamp(params.at).getHours()`: "22", `string(duration("90m"))`: "5400s", `params.nums.all(params, params > 0)`: "true", `.params.tenant`: "acme",
		`type(params.n) == int`: "true", `params.order == event.order`: "true", `params.n == 7.0`: "true",
	} {
		if err := e.Check("limit.key", expression); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
		if key, err := e.Key("limit.key", expression, []byte(object)); err != nil || key != want {
			t.Errorf("%s is key %q, error %v; it must be %q", expression, key, err, want)
		}
	}
}

// Fails when a missing parameter is the empty key where the expression doesn't say so.
func TestP13MissingParameterOfAnExpression(t *testing.T) {
	e := evaluator(t)
	for expression, want := range map[string]string{
		`params.?x.orValue("")`: "", `params.?x.y.z.orValue("none")`: "none", `has(params.x) ? params.x : ""`: "", `params[?"x-y"].orValue("")`: "",
		`params.order.?x.orValue("")`: "", `has(params.order.b.x)`: "true", `has(params.order.b.q)`: "false", `"x" in params ? 1 : 2`: "2",
		`params.?x.or(params.?tenant).orValue("")`: "acme", `params.x == 1 || true`: "true",
	} {
		if key, err := e.Key("limit.key", expression, []byte(object)); err != nil || key != want {
			t.Errorf("%s is key %q, error %v; it must be %q", expression, key, err, want)
		}
	}
	const no = "must give a key for these params: "
	for expression, want := range map[string]string{
		`params.x`:              no + `1:7: no such key: x; where it may be missing, write has(params.x) ? params.x : "" or params.?x.orValue("")`,
		`"a" + event.order.x`:   no + `1:18: no such key: x; where it may be missing, write has(event.order.x) ? event.order.x : "" or event.?order.x.orValue("")`,
		`params["x y"]`:         no + `1:7: no such key: x y; where it may be missing, write params[?"x y"].orValue("")`,
		`params.region`:         no + `1:7: no such key: region: did you mean params.Region?`,
		`params[params.tenant]`: no + `1:7: no such key: acme`,
	} {
		key, err := e.Key("limit.key", expression, []byte(object))
		if diff := cmp.Diff(want, wants(t, err)); key != "" || diff != "" {
			t.Errorf("%s is key %q (-want +got):\n%s", expression, key, diff)
		}
	}
}

func TestP57ExpressionsThatAreNone(t *testing.T) {
	e := evaluator(t)
	const no, kind = "must be a CEL expression over params: ", "must be a CEL expression that gives a string, a number, a bool or null: it gives "
	for expression, want := range map[string]string{
		"":                             "must be a CEL expression of 1 to 512 bytes of UTF-8",
		"\xff":                         "must be a CEL expression of 1 to 512 bytes of UTF-8",
		strings.Repeat(" ", 512) + "1": "must be a CEL expression of 1 to 512 bytes of UTF-8",
		`params.a +`:                   no + `1:11: syntax error: unexpected end`,
		`(params.a`:                    no + `1:10: syntax error: missing ')' at the end`,
		"params.a\n+ tenant.id":        no + `2:3: undeclared reference to 'tenant': did you mean params.tenant?`,
		`tenant`:                       no + `1:1: undeclared reference to 'tenant': did you mean params.tenant?`,
		`"a" + Params.a`:               no + `1:7: undeclared reference to 'Params': did you mean params?`,
		`events.a`:                     no + `1:1: undeclared reference to 'events': did you mean event?`,
		`now()`:                        no + `1:4: undeclared reference to 'now'`,
		`params.in`:                    no + `1:8: syntax error: no viable alternative at input '.in'`,
		`math.greatest(1, 2)`:          no + `1:1: undeclared reference to 'math'`,
		`"%d".format([params.a])`:      no + `1:12: undeclared reference to 'format'`,
		`params.a.lowerAsci()`:         no + `1:19: undeclared reference to 'lowerAsci' (did you mean 'lowerAscii'?)`,
		`1 + "a"`:                      no + `1:3: the types don't fit: no overload of '_+_' applied to '(int, string)'`,
		`timestamp(params.a).getHours("Europe/Oslo")`:       no + `1:29: the types don't fit: no overload of 'getHours' applied to 'timestamp.(string)'`,
		`params.a.matches(params.b)`:                        no + `1:17: the pattern of matches must be written out as a string`,
		`params.a.matches("(")`:                             no + "error parsing regexp: missing closing ): `(`",
		`params.a.matches("x{1000}")`:                       no + `1:18: regex program size 1002 exceeds limit of 250`,
		`{"a": 1}`:                                          no + `1:1: a map must be looked up where it is written, {"a": "b"}[params.c]`,
		`google.protobuf.Empty{}`:                           no + `1:22: there are no messages, only JSON`,
		strings.Repeat("(", 512):                            no + `expression recursion limit exceeded: 50`,
		`[1]` + strings.Repeat(`.map(a, a)`, 9) + `.size()`: no + `1:88: an expression must have at most 8 loops`,
		`params.?a`:                                         kind + `optional_type(dyn); end it with .orValue("")`,
		`params`:                                            kind + `map(string, dyn); take one value out of it`,
		`params.a.split(",")`:                               kind + `list(string); take one value out of it`,
		`b"a"`:                                              kind + `bytes; put it into string()`,
		`timestamp(params.a)`:                               kind + `google.protobuf.Timestamp; put it into string()`,
		`duration("1s")`:                                    kind + `google.protobuf.Duration; put it into string()`,
		`type(params.a)`:                                    kind + `type(dyn)`,
	} {
		for range 2 { // a refusal isn't kept, so it comes again
			if diff := cmp.Diff(want, wants(t, e.Check("limit.key", expression))); diff != "" {
				t.Errorf("%q (-want +got):\n%s", expression, diff)
			}
		}
		if _, err := e.Key("limit.key", expression, []byte(`{}`)); wants(t, err) != want {
			t.Errorf("%q is computed: %v", expression, err)
		}
	}
}

func TestP60ExpressionThatFails(t *testing.T) {
	e := evaluator(t)
	const no = "must give a key for these params: "
	const types = ": the types don't fit; string(x) makes a text of a number, and orValue needs an optional, params.?x"
	for expression, want := range map[string]string{
		`params.nums[3]`:                            no + `1:12: index out of bounds: 3`,
		`params.n / 0`:                              no + `1:10: division by zero`,
		`params.n + 9223372036854775807`:            no + `1:10: integer overflow`,
		`params.tenant + params.n`:                  no + `1:15: no such overload` + types,
		`params.n.lowerAscii()`:                     no + `1:20: no such overload: lowerAscii(int)` + types,
		`params.n.matches("7")`:                     no + `1:17: no such overload` + types,
		`params.tenant.orValue("")`:                 no + `no such overload` + types,
		`params.nums.join(",")`:                     no + `1:17: no such overload: join(list, string)` + types,
		`int(params.tenant)`:                        no + `1:4: type conversion error from 'string' to 'int'`,
		`params.tenant.substring(2, 9)`:             no + `1:24: substring from 2 to 9 of 4 characters`,
		`1.0 / 0.0`:                                 no + `the result must be a finite number`,
		`dyn(params.?n)`:                            no + `the result must not be an optional: end it with .orValue("")`,
		`dyn(b"a")`:                                 no + `the result must be a string, a number, a bool or null, not bytes`,
		`dyn([params.nums.map(n, duration("1s"))])`: no + `the result must be a string, a number, a bool or null, not google.protobuf.Duration`,
		`dyn([params.tenant, params.?n])`:           no + `the result must not be an optional: end it with .orValue("")`,
	} {
		key, err := e.Key("limit.key", expression, []byte(object))
		if diff := cmp.Diff(want, wants(t, err)); key != "" || diff != "" {
			t.Errorf("%s is key %q (-want +got):\n%s", expression, key, diff)
		}
	}
	for _, params := range []string{``, `null`, `[]`, `"a"`, `7`, `[{"tenant":"a"}]`} {
		if key, err := e.Key("limit.key", `params.tenant`, []byte(params)); key != "" || wants(t, err) != no+"they must be a JSON object" {
			t.Errorf("%s: key %q, error %v", params, key, err)
		}
	}
}

// Fails when two tenants with long numbers share a key, or when a number that is an integer
// has another key than by its parameter.
func TestP60NumbersKeepTheirDigits(t *testing.T) {
	e := evaluator(t)
	for raw, want := range map[string]string{
		"9007199254740993": "9007199254740993", "9223372036854775807": "9223372036854775807", "-9223372036854775808": "-9223372036854775808",
		"9223372036854775808": "9223372036854775808", "18446744073709551615": "18446744073709551615",
		"1.0": "1", "1e3": "1000", "-0.0": "0", "0.1": "0.1", "123456789.5": "123456789.5", "1e400": "",
	} {
		key, err := e.Key("limit.key", `params.id`, []byte(`{"id":`+raw+`}`))
		if key != want || (err != nil) != (want == "") {
			t.Errorf("%s is key %q, error %v; it must be %q", raw, key, err, want)
		}
		byName, err := flow.KeySource{Name: "id"}.Resolve([]byte(`{"id":` + raw + `}`))
		if byName != want || (err != nil) != (want == "") {
			t.Errorf("%s is key %q by the parameter, error %v", raw, byName, err)
		}
	}
}

// Fails when two values that are no text meet in one key. What the expression doesn't use
// is of no account.
func TestP60HalfSurrogatesOfAnExpression(t *testing.T) {
	e := evaluator(t)
	const params = `{"bad":"\ud800","of":["\udc00"],"name":{"\ud800":1},"other":{"\ud801":1},"ok":"\ufffd","pair":"\ud83d\ude00","\ud801":"x"}`
	for _, expression := range []string{
		`params.bad`, `"a" + params.bad`, `params.of`, `params.of[0]`, `size(params.of)`, `params.name == params.other`, `params.name`, `params["\ufffd"]`, "params.map(k, k)[0]",
	} {
		if key, err := e.Key("limit.key", expression, []byte(params)); err == nil {
			t.Errorf("%s is key %q", expression, key)
		} else {
			wants(t, err)
		}
	}
	for expression, want := range map[string]string{`params.ok`: "\ufffd", `params.pair`: "😀", `has(params.bad) ? "b" : "c"`: "b", `params.ok + params.pair`: "\ufffd😀"} {
		if key, err := e.Key("limit.key", expression, []byte(params)); key != want || err != nil {
			t.Errorf("%s is key %q, error %v", expression, key, err)
		}
	}
}

// Fails when the order of a map of Go can be seen in a key: a retry would be another key.
func TestP12LoopsGoByName(t *testing.T) {
	e := evaluator(t)
	const params = `{"m":{"e":1,"b":2,"d":3,"a":4,"c":5},"z":{}}`
	for expression, want := range map[string]string{
		`params.m.map(k, k).join()`: "abcde", `params.map(k, k).join()`: "mz", `params.m.filter(k, params.m[k] > 1)[0]`: "a",
		`params.m`: `{"a":4,"b":2,"c":5,"d":3,"e":1}`, `optional.ofNonZeroValue(params.z).hasValue()`: "false",
	} {
		for range 50 {
			if key, err := e.Key("limit.key", expression, []byte(params)); key != want || err != nil {
				t.Fatalf("%s is key %q, error %v; it must be %q", expression, key, err, want)
			}
		}
	}
}

func TestP12P60LengthOfAnExpressionsKey(t *testing.T) {
	e := evaluator(t)
	at, over := strings.Repeat("k", flow.MaxKeyBytes), strings.Repeat("k", flow.MaxKeyBytes+1)
	if key, err := e.Key("limit.key", `params.k`, []byte(`{"k":"`+at+`"}`)); key != at || err != nil {
		t.Errorf("a key of %d bytes, error %v", len(key), err)
	}
	for expression, want := range map[string]string{
		`params.k`:      "must be at most 1024 bytes when used as a key",
		`dyn([params])`: "must be at most 1024 bytes when used as a key",
		`dyn([params, params, params, params, params, params, params, params])`: "must give a key for these params: the result must be at most 1024 bytes",
	} {
		if _, err := e.Key("limit.key", expression, []byte(`{"k":"`+over+`"}`)); wants(t, err) != want {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

// BenchmarkKey computes known expressions over small params, which it also reads.
func BenchmarkKey(b *testing.B) {
	e := evaluator(b)
	params := []byte(`{"tenant":"acme","region":"EU","amount":129.5,"items":[{"sku":"a-1","n":2},{"sku":"b-2","n":1}],"tags":["new","vip"]}`)
	for name, expression := range map[string]string{
		"parameter": `params.tenant`, "optional": `params.?tenant.orValue("")`, "has": `has(params.tenant) ? params.tenant : ""`,
		"two": `params.tenant + "/" + params.region.lowerAscii()`, "table": `{"EU": "e", "US": "u"}[params.region]`,
		"loop": `params.tags.exists(t, t == "vip") ? "vip" : "rest"`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Key("limit.key", expression, params); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCheck compiles an expression that isn't known.
func BenchmarkCheck(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		e := evaluator(b)
		b.StartTimer()
		if err := e.Check("limit.key", `params.?tenant.orValue("")`); err != nil {
			b.Fatal(err)
		}
	}
}
