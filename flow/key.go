package flow

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// KeyText turns the value of a parameter into the text of a key (P60): a string
// is itself, an integer its decimal digits, a bool true or false, null the empty
// text, and everything else its canonical JSON. So 1 and "1" share a key. raw is
// valid JSON: of anything else the answer is some text or an error. Error:
// *FieldError.
func KeyText(raw []byte) (string, error) {
	v := gjson.ParseBytes(raw)
	switch v.Type {
	case gjson.Null:
		return "", nil
	case gjson.String:
		if strings.ContainsRune(v.Str, utf8.RuneError) && !wholeText(v.Raw) {
			return "", errHalf
		}
		return v.Str, nil
	case gjson.True:
		return "true", nil
	case gjson.False:
		return "false", nil
	case gjson.Number:
		return numberText(v.Raw)
	default:
		if !wholeText(v.Raw) {
			return "", errHalf
		}
		return canonical(raw)
	}
}

var errHalf = Invalid("params", "must be whole Unicode text when used as a key: a half of a surrogate pair is no character")

// wholeText says whether no escape in JSON text is half of a surrogate pair, which
// decoding replaces by U+FFFD: then two values would share one text.
func wholeText(raw string) bool {
	half := rune(0) // a high half that waits for its low one
	for i := 0; i < len(raw); i++ {
		unit := rune(0)
		if raw[i] == '\\' && i+1 < len(raw) {
			i++
			if raw[i] == 'u' && i+4 < len(raw) {
				n, err := strconv.ParseUint(raw[i+1:i+5], 16, 16)
				if err != nil {
					return false
				}
				unit = rune(n)
				i += 4
			}
		}
		low := unit >= 0xDC00 && unit < 0xE000
		if low != (half != 0) {
			return false
		}
		if half = 0; unit >= 0xD800 && unit < 0xDC00 {
			half = unit
		}
	}
	return half == 0
}

// numberText keeps the digits of a plain integer, however long, and brings every
// other number to the shortest form: 1.0 and 1e0 are the integer 1.
func numberText(raw string) (string, error) {
	if raw == "-0" {
		return "0", nil
	}
	if !strings.ContainsAny(raw, ".eE") {
		return raw, nil
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		return "", Invalid("params", "must hold numbers that fit a 64-bit float when used as a key")
	}
	if f == float64(int64(f)) && f > -1e15 && f < 1e15 {
		return strconv.FormatInt(int64(f), 10), nil
	}
	b, err := json.Marshal(f)
	return string(b), err
}

// canonical is compact JSON with sorted keys and no HTML escapes.
func canonical(raw []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", Invalid("params", "must be JSON")
	}
	var b bytes.Buffer
	if err := appendCanonical(&b, v); err != nil {
		return "", err
	}
	return b.String(), nil
}

func appendCanonical(b *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case json.Number:
		s, err := numberText(v.String())
		b.WriteString(s)
		return err
	case []any:
		return appendList(b, len(v), func(i int) error { return appendCanonical(b, v[i]) }, "[]")
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v)) // no order of iteration may be seen
		return appendList(b, len(keys), func(i int) error {
			if err := appendText(b, keys[i]); err != nil {
				return err
			}
			b.WriteByte(':')
			return appendCanonical(b, v[keys[i]])
		}, "{}")
	case string:
		return appendText(b, v)
	default:
		raw, err := json.Marshal(v) // null, true, false
		b.Write(raw)
		return err
	}
}

func appendList(b *bytes.Buffer, n int, item func(int) error, brackets string) error {
	b.WriteByte(brackets[0])
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := item(i); err != nil {
			return err
		}
	}
	b.WriteByte(brackets[1])
	return nil
}

func appendText(b *bytes.Buffer, s string) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the encoder ends with a newline
	return nil
}

// Evaluate computes a key that is an expression, without its "cel:", over a JSON object.
// It is a function of the two alone. field names the policy's key in errors, which are
// *FieldError of ErrConfiguration (P60).
type Evaluate func(field, expression string, object []byte) (string, error)

// keyAsked are the names that the errors of one resolved key use: field is where a caller
// gives it, owner whose key it is, what the object it is a part of, policy the declared key.
type keyAsked struct{ field, owner, what, policy string }

// resolve is the key of an object: given by a caller if only the workflow's code can compute
// it, which mustn't be given otherwise (P20).
func (k KeySource) resolve(asked keyAsked, object []byte, given *string, eval Evaluate) (string, error) {
	expression, isExpression := k.Expression()
	switch {
	case given != nil && !k.IsFunction():
		return "", misconfigured(asked.field, "must not be given: the "+asked.owner+"'s key is "+k.shown())
	case given != nil:
		return *given, CheckKey(asked.field, *given)
	case k.IsFunction():
		return "", misconfigured(asked.field, "must be given: the "+asked.owner+"'s key is "+k.shown()+
			", which only the workflow's code can compute")
	case !isExpression:
		return k.parameter(asked.what, object)
	case eval == nil:
		return "", misconfigured(asked.policy, "must not be an expression: nothing computes one here")
	}
	text, err := eval(asked.policy, expression, object)
	if err != nil {
		return "", err
	}
	return text, CheckKey(asked.policy, text)
}

// Resolve is the key of params under a source that is a parameter name. A
// missing parameter resolves to "" (P13). params must be a JSON object. Of a
// name that stands twice the last counts, as everywhere in Go's JSON. Error:
// *FieldError when the value is over MaxKeyBytes.
func (k KeySource) Resolve(params []byte) (string, error) { return k.parameter("params", params) }

func (k KeySource) parameter(what string, params []byte) (string, error) {
	var raw string
	gjson.ParseBytes(params).ForEach(func(name, value gjson.Result) bool {
		if name.Str == k.Name {
			raw = value.Raw
		}
		return true
	})
	if raw == "" {
		return "", nil
	}
	text, err := KeyText([]byte(raw))
	if f, ok := errors.AsType[*FieldError](err); ok {
		return "", &FieldError{Kind: f.Kind, Field: what + "." + k.Name, Want: f.Want}
	}
	if err != nil {
		return "", err
	}
	return text, CheckKey(what+"."+k.Name, text)
}

// CheckKey refuses a key value that is too long or not UTF-8. Error: *FieldError.
func CheckKey(field, text string) error {
	if len(text) > MaxKeyBytes {
		return Invalid(field, "must be at most 1024 bytes when used as a key")
	}
	if !utf8.ValidString(text) {
		return Invalid(field, "must be UTF-8 when used as a key")
	}
	return nil
}
