package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// Fails when a parameter's value isn't the key that the rule says.
func TestP60KeyText(t *testing.T) {
	for raw, want := range map[string]string{
		`"acme"`: "acme", `""`: "", `null`: "", `true`: "true", `false`: "false",
		`"true"`: "true", `"null"`: "null", `"a\u0000b"`: "a\x00b", `"\u00e9"`: "é", `"é"`: "é", `"\"\\\/\n"`: "\"\\/\n",
		`"\ud83d\ude00"`: "😀", `"*"`: "*", `" a "`: " a ", `"%2F"`: "%2F",
		`1`: "1", `"1"`: "1", `1.0`: "1", `1e0`: "1", `10e-1`: "1", `1E3`: "1000", `1e3`: "1000", `-1.0`: "-1",
		`0`: "0", `-0`: "0", `-0.0`: "0", `0.0`: "0", `-0e5`: "0", `1e-400`: "0", `1.5`: "1.5", `-1.50`: "-1.5",
		`0.1`: "0.1", `1e-7`: "1e-7", `1e15`: "1000000000000000", `1000000000000000`: "1000000000000000",
		`1e20`: "100000000000000000000", `1e21`: "1e+21", `1.7976931348623157e308`: "1.7976931348623157e+308",
		`12345678901234567890`: "12345678901234567890", `-12345678901234567890123`: "-12345678901234567890123",
		`[]`: "[]", `{}`: "{}", `[ 1 , "1" , null ]`: `[1,"1",null]`, `[1.0,-0,1e3,[true]]`: `[1,0,1000,[true]]`,
		`{"b":1,"a":{"d":[],"c":2}}`: `{"a":{"c":2,"d":[]},"b":1}`, `{"a":1,"a":2}`: `{"a":2}`,
		`["<&>"]`: `["<&>"]`, `{"<":"é\u00e9"}`: `{"<":"éé"}`, `["\u0001"]`: `["\u0001"]`,
		` "acme" `: "acme", "\n1\t": "1", ` [ ] `: "[]",
	} {
		got, err := KeyText([]byte(raw))
		if err != nil || got != want {
			t.Errorf("%s is %q, want %q (error %v)", raw, got, want, err)
		}
	}
}

// Fails when a number without a 64-bit value, or JSON that is too deep, is a key.
func TestP60KeyTextRefuses(t *testing.T) {
	for _, raw := range []string{
		`1e400`, `-1e400`, `[1e400]`, `{"a":1e999}`, strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000),
		`[`, `[1`, `{"a"`, `{"a":}`, `[1e]`,
	} {
		if got, err := KeyText([]byte(raw)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.20s is %.20q, error %v", raw, got, err)
		}
	}
}

// Fails when a key isn't the value of the parameter that the policy names (P12), or
// a missing parameter has no key (P13).
func TestP12P13Resolve(t *testing.T) {
	for params, want := range map[string]string{
		`{"tenant":"acme"}`: "acme", `{"other":1,"tenant":7}`: "7", `{"tenant":null}`: "", `{}`: "", `null`: "", ``: "",
		`{"Tenant":"x"}`: "", `{"a":{"tenant":"x"}}`: "", `{"tenant":{"b":1,"a":[2]}}`: `{"a":[2],"b":1}`,
		`{"tenant":"a","tenant":"b"}`: "b", `{"tenant":"a","tenant":null}`: "", "{\n \"tenant\" : true }": "true",
		`{"\u0074enant":"x"}`: "x", `{"tenant":""}`: "", `{"x":"\"tenant\":1","tenant":"y"}`: "y", `["tenant"]`: "",
		`{"x":[{"tenant":"no"}],"tenant":"yes"}`: "yes",
	} {
		got, err := byTenant.Resolve([]byte(params))
		if err != nil || got != want {
			t.Errorf("%s has key %q, want %q (error %v)", params, got, want, err)
		}
	}
}

// Fails when the longest key is refused, a longer one is taken, or the refusal
// doesn't name the parameter.
func TestP12KeyLength(t *testing.T) {
	for n, want := range map[int]bool{0: true, MaxKeyBytes - 1: true, MaxKeyBytes: true, MaxKeyBytes + 1: false, 1 << 20: false} {
		key := strings.Repeat("k", n)
		got, err := byTenant.Resolve([]byte(`{"tenant":"` + key + `"}`))
		if (err == nil) != want || (want && got != key) {
			t.Errorf("a key of %d bytes: error %v", n, err)
		}
		if f, ok := errors.AsType[*FieldError](err); !want && (!ok || f.Field != "params.tenant" || !errors.Is(err, ErrInvalid)) {
			t.Errorf("a key of %d bytes: error %v", n, err)
		}
	}
	if err := CheckKey("key", "a\xff"); !errors.Is(err, ErrInvalid) {
		t.Errorf("a key that isn't UTF-8: error %v", err)
	}
	if got, err := byTenant.Resolve([]byte("{\"tenant\":\"a\xff\"}")); !errors.Is(err, ErrInvalid) {
		t.Errorf("a parameter that isn't UTF-8: key %q, error %v", got, err)
	}
}

// FuzzKeyText holds that no bytes make KeyText panic; that every JSON value has a
// key or a refusal of the family; that white space and the order of names don't
// count; and that the key of a key's own JSON text is itself.
func FuzzKeyText(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := KeyText(raw)
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatalf("%q: error %v is of no family", raw, err)
		}
		if !json.Valid(raw) {
			return
		}
		var b bytes.Buffer
		if json.Indent(&b, raw, " ", "\t") != nil {
			t.Fatalf("%q is JSON and isn't", raw)
		}
		spaced, err2 := KeyText(b.Bytes())
		if spaced != got || (err == nil) != (err2 == nil) {
			t.Fatalf("%q is %q (error %v), with white space %q (error %v)", raw, got, err, spaced, err2)
		}
		if err != nil || !utf8.ValidString(got) {
			return
		}
		quoted, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := KeyText(quoted); err != nil || again != got {
			t.Fatalf("%q is %q, whose JSON is %q (error %v)", raw, got, again, err)
		}
		params := append(append([]byte(`{"tenant":`), raw...), '}')
		if key, err := byTenant.Resolve(params); len(got) <= MaxKeyBytes && (err != nil || key != got) {
			t.Fatalf("%q is %q, as a parameter %q (error %v)", raw, got, key, err)
		}
	})
}
