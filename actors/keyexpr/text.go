package keyexpr

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/pyrula/pyrula-node/flow"
)

// maxResultBytes bounds the JSON that is written of a result: a key's canonical JSON is at
// most this much shorter.
const maxResultBytes = 8 * flow.MaxKeyBytes

// keyText is a result as the text of a key (P60).
func keyText(v ref.Val) (string, error) {
	switch v := v.(type) {
	case types.String:
		return string(v), nil
	case types.Int:
		return strconv.FormatInt(int64(v), 10), nil
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10), nil
	case types.Null:
		return "", nil
	}
	var b bytes.Buffer
	if err := writeJSON(&b, v); err != nil {
		return "", err
	}
	return flow.KeyText(b.Bytes())
}

// writeJSON writes a result as JSON, in whatever order. It is as deep as an expression and
// an object can make it.
func writeJSON(b *bytes.Buffer, v ref.Val) error {
	switch v := v.(type) {
	case types.Null:
		b.WriteString("null")
	case types.Bool:
		b.WriteString(strconv.FormatBool(bool(v)))
	case types.Int:
		b.WriteString(strconv.FormatInt(int64(v), 10))
	case types.Uint:
		b.WriteString(strconv.FormatUint(uint64(v), 10))
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return errors.New("the result must be a finite number")
		}
		b.Write(strconv.AppendFloat(nil, float64(v), 'g', -1, 64))
	case types.String:
		text, err := json.Marshal(string(v))
		if err != nil {
			return err
		}
		b.Write(text)
	case traits.Lister:
		return writeAll(b, v.Iterator(), "[]", func(item ref.Val) error { return writeJSON(b, item) })
	case traits.Mapper:
		return writeAll(b, v.Iterator(), "{}", func(name ref.Val) error {
			if _, ok := name.(types.String); !ok {
				return errors.New("the result must have strings for names")
			}
			if err := writeJSON(b, name); err != nil {
				return err
			}
			b.WriteByte(':')
			return writeJSON(b, v.Get(name))
		})
	case *types.Optional:
		return errors.New(`the result must not be an optional: end it with .orValue("")`)
	default:
		return errors.New("the result must be a string, a number, a bool or null, not " + v.Type().TypeName())
	}
	return nil
}

func writeAll(b *bytes.Buffer, items traits.Iterator, brackets string, write func(ref.Val) error) error {
	b.WriteByte(brackets[0])
	for n := 0; items.HasNext() == types.True; n++ {
		if n > 0 {
			b.WriteByte(',')
		}
		if err := write(items.Next()); err != nil {
			return err
		}
		if b.Len() > maxResultBytes {
			return errors.New("the result must be at most 1024 bytes")
		}
	}
	b.WriteByte(brackets[1])
	return nil
}
