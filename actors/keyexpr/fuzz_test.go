package keyexpr_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pyrula/pyrula-node/flow"
)

// FuzzP12P57P60Expression holds that no expression and no object make the Evaluator panic or
// take long, that a refusal names the field and is one short line, and that a key is one and
// stays the same.
func FuzzP12P57P60Expression(f *testing.F) {
	e, fresh := evaluator(f), evaluator(f)
	f.Fuzz(func(t *testing.T, expression string, object []byte) {
		declared := e.Check("limit.key", expression)
		if declared != nil {
			wants(t, declared)
		}
		key, err := e.Key("limit.key", expression, object)
		if declared != nil && err == nil {
			t.Fatalf("%q is refused and has the key %q", expression, key)
		}
		again, errAgain := fresh.Key("limit.key", expression, object)
		if key != again || (err == nil) != (errAgain == nil) {
			t.Fatalf("%q is key %q, error %v, and then %q, error %v", expression, key, err, again, errAgain)
		}
		if err != nil {
			wants(t, err)
		} else if flow.CheckKey("limit.key", key) != nil {
			t.Fatalf("%q is no key", key)
		}
	})
}

// beyond are the values that have another key by an expression than by a parameter: integers
// over 64 bits, which CEL hasn't, and halves of surrogate pairs deep inside.
var beyond = regexp.MustCompile(`[0-9]{19}|\\u[dD][89a-fA-F]`)

// FuzzP13P60ExpressionLikeParameter holds that params.?k.orValue("") has the key that the
// parameter k has.
func FuzzP13P60ExpressionLikeParameter(f *testing.F) {
	e := evaluator(f)
	f.Fuzz(func(t *testing.T, object []byte) {
		isObject := json.Valid(object) && utf8.Valid(object) && strings.HasPrefix(strings.TrimSpace(string(object)), "{")
		if !isObject || len(object) > 32<<10 || beyond.Match(object) {
			t.Skip("no object that both read the same way")
		}
		want, wantErr := flow.KeySource{Name: "k"}.Resolve(object)
		key, err := e.Key("limit.key", `params.?k.orValue("")`, object)
		if err != nil && strings.Contains(err.Error(), "levels deep") {
			t.Skip("parameters have no bound of levels")
		}
		if key != want && wantErr == nil || (err == nil) != (wantErr == nil) {
			t.Fatalf("%s is key %q, error %v; by the parameter %q, error %v", object, key, err, want, wantErr)
		}
		if err != nil && !errors.Is(err, flow.ErrConfiguration) {
			t.Fatalf("error %v is of no family", err)
		}
	})
}
