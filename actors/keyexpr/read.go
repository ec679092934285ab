package keyexpr

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/tidwall/gjson"

	"github.com/pyrula/pyrula-node/flow"
)

// read makes a value of JSON, of an object only the names that are needed. What can't be
// a value is an error in its place, which counts where the expression uses it.
func (n *need) read(v gjson.Result) any {
	if n.whole || !v.IsObject() {
		if len(v.Raw) > maxValueBytes {
			return types.NewErr("%s", tooLarge(n.path.String()))
		}
		return value(v, 1)
	}
	object := make(map[string]any, len(n.names))
	v.ForEach(func(name, member gjson.Result) bool {
		if of := n.names[name.Str]; of != nil && isWhole(name) {
			object[name.Str] = of.read(member)
		}
		return true
	})
	return object
}

// value is a whole value, or an error if a part of it is one: to compare two maps CEL takes
// errors in them for equal.
func value(v gjson.Result, level int) ref.Val {
	switch v.Type {
	case gjson.Null:
		return types.NullValue
	case gjson.False:
		return types.False
	case gjson.True:
		return types.True
	case gjson.Number:
		return number(v.Raw)
	case gjson.String:
		return text(v)
	default:
		return container(v, level)
	}
}

func container(v gjson.Result, level int) ref.Val {
	switch {
	case level > maxLevels:
		return types.NewErr("a value must be at most %d levels deep to be used", maxLevels)
	case v.IsArray():
		return list(v, level)
	default:
		return members(v, level)
	}
}

func list(v gjson.Result, level int) ref.Val {
	items, fault := []ref.Val{}, ref.Val(nil)
	v.ForEach(func(_, item gjson.Result) bool {
		one := value(item, level+1)
		if types.IsError(one) {
			fault = one
		}
		items = append(items, one)
		return fault == nil
	})
	if fault != nil {
		return fault
	}
	return types.NewRefValList(types.DefaultTypeAdapter, items)
}

func members(v gjson.Result, level int) ref.Val {
	members, fault := make(map[string]any), ref.Val(nil)
	v.ForEach(func(name, member gjson.Result) bool {
		for _, one := range [...]ref.Val{text(name), value(member, level+1)} {
			if types.IsError(one) {
				fault = one
			}
			members[name.Str] = one
		}
		return fault == nil
	})
	if fault != nil {
		return fault
	}
	return newObject(members)
}

func text(v gjson.Result) ref.Val {
	if !isWhole(v) {
		return types.NewErr("a text must be whole Unicode to be used: a half of a surrogate pair is no character")
	}
	return types.String(v.Str)
}

// number keeps every digit of an integer that fits.
func number(raw string) ref.Val {
	if !strings.ContainsAny(raw, ".eE") {
		if i, err := strconv.ParseInt(raw, 10, 64); err == nil {
			return types.Int(i)
		}
		if u, err := strconv.ParseUint(raw, 10, 64); err == nil {
			return types.Uint(u)
		}
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		return types.NewErr("a number must fit a 64-bit float to be used")
	}
	return types.Double(f)
}

// isWhole says that the text of a JSON string is what was sent: decoding puts U+FFFD in
// place of what is no character.
func isWhole(v gjson.Result) bool {
	if !utf8.ValidString(v.Str) {
		return false
	}
	if !strings.ContainsRune(v.Str, utf8.RuneError) {
		return true
	}
	_, err := flow.KeyText([]byte(v.Raw))
	return err == nil
}

// object is a JSON object as a value. Loops over it go by the order of its names, which a
// map of Go hasn't.
type object struct {
	traits.Mapper
	names []string
}

func newObject(members map[string]any) *object {
	o := &object{Mapper: types.NewStringInterfaceMap(types.DefaultTypeAdapter, members)}
	o.names = make([]string, 0, len(members))
	for name := range members {
		o.names = append(o.names, name)
	}
	slices.Sort(o.names)
	return o
}

// Iterator implements traits.Iterable.
func (o *object) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, o.names).Iterator()
}

// AggregateSize implements types.AggregateSizeVisitor.
func (o *object) AggregateSize(sizer types.AggregateSizer) uint32 {
	return o.Mapper.(types.AggregateSizeVisitor).AggregateSize(sizer)
}

// IsZeroValue implements traits.Zeroer.
func (o *object) IsZeroValue() bool { return len(o.names) == 0 }
