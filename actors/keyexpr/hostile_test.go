package keyexpr_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pyrula/pyrula-node/actors/keyexpr"
)

// mostBytes is what one refused computation may allocate. Without the bounds each of the
// expressions below takes gigabytes, or hours.
const mostBytes = 32 << 20

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// large are params in which each value has about n parts.
func large(t testing.TB, n int) []byte {
	t.Helper()
	numbers, words := make([]int, n), make([]string, n)
	var nest any = "x"
	for i := range n {
		numbers[i], words[i] = i, "ab"
		if i < 60 {
			nest = []any{nest, i}
		}
	}
	params, err := json.Marshal(map[string]any{
		"text": strings.Repeat("a", n), "numbers": numbers, "words": words, "nest": nest, "span": strings.Repeat("1h", n/2), "tenant": "acme",
		"object": map[string]any{"text": strings.Repeat("o", n)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return params
}

func TestP12P57ExpressionsThatExplodeWhenTheyAreCompiled(t *testing.T) {
	e := evaluator(t)
	fill := func(head, part, tail string) string {
		return head + strings.Repeat(part, (512-len(head)-len(tail))/len(part)) + tail
	}
	for _, expression := range []string{
		fill(`[1]`, `.map(a,{a:a})`, `.size()`), fill(`[1]`, `.map(a,[a,a])`, `.size()`), fill(`params.?a`, `.optMap(b,b)`, `.orValue("")`),
		fill("", "(", ""), fill("", "[", ""), fill("", "{1:", ""), fill("", "-", "1"), fill("", "!", "true"), fill("", "a.", "a"), fill("", "a?", ""),
		fill("", "f(", ""), fill("", "1+", "1"), fill("", "a&&", "a"), fill("", "((a)?", ""), fill("", "params.all(x,", ""), fill("", "\x00", ""),
		fill("'", "é", "'"), fill("", "\"", ""), fill("", ".?a", ""), fill("", "\n", "a"), fill(`params.a.matches("`, "(x{9}){9}", `")`),
		fill(`params.a.matches("`, "(a*)*", `")`), fill(`params.a.matches("`, "(", `")`),
	} {
		if size := allocated(func() {
			if err := e.Check("limit.key", expression); err != nil {
				wants(t, err)
			}
		}); size > mostBytes {
			t.Errorf("%.40s takes %d bytes", expression, size)
		}
	}
}

func TestP12P60ExpressionsThatExplodeWhenTheyAreComputed(t *testing.T) {
	e := evaluator(t)
	const doubled = `.map(a,[a,a,a,a,a,a,a,a,a,a,a,a])`
	objects := [][]byte{large(t, 100), large(t, 2_000), large(t, 9_000), large(t, 60_000)}
	for _, expression := range []string{
		`[[1]` + strings.Repeat(doubled, 7) + `].all(x, x == x)`, `[[1]]` + strings.Repeat(`.map(a,a+a+a+a+a+a+a+a+a+a+a)`, 7) + `.all(x, 2 in x)`,
		`["a"]` + strings.Repeat(`.map(a,a+a+a+a+a+a+a+a+a+a+a)`, 8) + `[0].size()`,
		`params.text.replace("", params.text)`, `params.text.replace("a", params.text)`, `params.words.join(params.text)`,
		`params.words.map(w, params.text).join()`, `dyn(params.words.map(w, params.text))`, `params.words.map(w, params.words).size()`,
		`params.numbers.all(x, params.numbers.all(y, params.numbers.all(z, x + y + z >= 0)))`, `params.numbers.all(x, params.numbers == params.numbers)`,
		`params.numbers.all(x, x in params.numbers)`, `params.numbers.all(x, params.nest == params.nest)`, `params.numbers.all(x, size(params.text) > 0)`,
		`params.numbers.all(x, (params.numbers + params.numbers).size() > 0)`, `params.numbers.all(x, duration(params.span) > duration("1s") || true)`,
		`params.numbers.all(x, int(params.text) > 1 || true)`, `params.numbers.all(x, params[params.text] == 1 || true)`,
		`params.numbers.all(x, params.text.matches("(.?.?.?.?){20}b") || true)`, `params.numbers.all(x, params.text.contains(params.text + "b") || true)`,
		`params.numbers.all(x, params.text.split("").size() > 0)`, `params.numbers.all(x, params.text.substring(1) != "")`,
		`params.numbers.all(x, string(bytes(params.text)) != "")`, `params.numbers.all(x, [params, params] != [])`,
	} {
		if err := e.Check("limit.key", expression); err != nil {
			t.Errorf("%.60s: %v", expression, err)
			continue
		}
		failed := false
		for _, params := range objects {
			size := allocated(func() {
				if _, err := e.Key("limit.key", expression, params); err != nil {
					wants(t, err)
					failed = true
				}
			})
			if size > mostBytes {
				t.Errorf("%.60s over %d bytes of params takes %d bytes", expression, len(params), size)
			}
		}
		if !failed {
			t.Errorf("%.60s always has a key", expression)
		}
	}
}

func TestP60BoundsOfAComputationSayWhatTheyAre(t *testing.T) {
	e := evaluator(t)
	params := large(t, 60_000)
	const no = "must give a key for these params: "
	for expression, want := range map[string]string{
		`params.text.matches("a")`:                no + "1:20: a text that is matched must be at most 4096 bytes",
		`params.numbers.size()`:                   no + "params.numbers must be at most 65536 bytes to be used",
		`[params.object, params.object].size()`:   no + "a value of the expression must be at most 65536 bytes to be used",
		`[params.text, params.text].size()`:       no + "a value of the expression must be at most 65536 bytes to be used",
		`params.text == params.text.upperAscii()`: no + "it takes more work than the 10000 units that an expression may cost",
		`params.text.replace("a", "aa") == "a"`:   no + "1:20: the replaced text must be at most 65536 bytes to be used",
		`params.size()`:                           no + "1:1: params must be at most 65536 bytes to be used",
	} {
		if _, err := e.Key("limit.key", expression, params); wants(t, err) != want {
			t.Errorf("%s: %v, it must be %q", expression, err, want)
		}
	}
	for expression, want := range map[string]string{ // what isn't read may be of any size
		`params.tenant`: "acme", `has(params.numbers) ? params.tenant : params.numbers`: "acme", `params.text.startsWith("a")`: "true",
	} {
		if key, err := e.Key("limit.key", expression, params); key != want || err != nil {
			t.Errorf("%s is key %q, error %v", expression, key, err)
		}
	}
}

func TestP60DeepParamsOfAnExpression(t *testing.T) {
	e := evaluator(t)
	for _, levels := range []int{1, 63, 64, 65, 1000, 200_000} {
		for _, nest := range []string{
			strings.Repeat("[", levels) + strings.Repeat("]", levels), strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels),
		} {
			params := []byte(`{"a":` + nest + `,"tenant":"acme"}`)
			for _, expression := range []string{`params.a`, `dyn([params.a])`, `params.a.a.a.a.a.a.a.a.a.a.a`, `dyn(params)`} {
				if _, err := e.Key("limit.key", expression, params); err != nil {
					wants(t, err)
				}
			}
			key, err := e.Key("limit.key", `[params.a] == [event.a]`, params)
			if whole := levels <= 64; whole != (err == nil) || whole != (key == "true") {
				t.Errorf("%d levels compared: %q, error %v", levels, key, err)
			}
			if key, err := e.Key("limit.key", `params.tenant`, params); key != "acme" || err != nil {
				t.Errorf("%d levels beside it: key %q, error %v", levels, key, err)
			}
		}
	}
}

// Fails under the race detector when computations share what they write: CEL's own shared
// errors are among what these expressions end in.
func TestP12P60ExpressionsAtOnce(t *testing.T) {
	e := evaluator(t)
	expressions := []string{
		`params.tenant`, `params.?x.orValue("")`, `params.tags.exists(t, t == "vip") ? "vip" : "rest"`, `params.order`, `params.tags.map(t, t).join()`,
		`params.tenant.orValue("") + "x"`, `params.tenant.orValue("").a`, `params.yes ? params.tenant.orValue("") : ""`, `string(timestamp(9223372036854775807))`,
		`params.n.matches("7")`, `params.n + params.tenant`, `params.tenant.matches("^a")`, `params.x`, `{"acme": 1}[params.tenant]`, `params.`, `tenant`,
	}
	type answer struct{ key, refusal string }
	computed := func(e *keyexpr.Evaluator, expression string) answer {
		key, err := e.Key("limit.key", expression, []byte(object))
		if err != nil {
			return answer{key, err.Error()}
		}
		return answer{key: key}
	}
	want := make(map[string]answer)
	for _, expression := range expressions {
		want[expression] = computed(evaluator(t), expression)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 * len(expressions) {
				expression := expressions[(i*7+g)%len(expressions)]
				if got := computed(e, expression); got != want[expression] {
					t.Errorf("%s is %v, alone it is %v", expression, got, want[expression])
				}
			}
		})
	}
	wg.Wait()
}
