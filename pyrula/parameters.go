package pyrula

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// parameter is one field of a type as it stands in JSON.
type parameter struct {
	name string
	of   reflect.Type
}

// parametersOf are the fields that a struct has in JSON, in their order. closed is false
// for a type that may encode with other names: a map, an interface, one with an encoding
// of its own.
func parametersOf(t reflect.Type) (list []parameter, closed bool) {
	for t.Kind() == reflect.Pointer {
		if encodesItself(t) {
			return nil, false
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || encodesItself(t) || encodesItself(reflect.PointerTo(t)) {
		return nil, false
	}
	for _, f := range reflect.VisibleFields(t) {
		name, encoded := encodedName(f)
		if encoded && !hidden(t, f.Index) && find(list, name) == nil {
			list = append(list, parameter{name, f.Type})
		}
	}
	return list, true
}

// find is the parameter of a name, or nil.
func find(list []parameter, name string) *parameter {
	if i := slices.IndexFunc(list, func(p parameter) bool { return p.name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// namesOf are the names of parameters in one line.
func namesOf(list []parameter) string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].name
	}
	return cmp.Or(strings.Join(names, ", "), "it has none")
}

func encodesItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// encodedName is the name of a field in JSON. It is false for one that doesn't stand
// there itself: it is left out, or it is embedded and its fields stand in its place.
func encodedName(f reflect.StructField) (string, bool) {
	tag := f.Tag.Get("json")
	if tag == "-" {
		return "", false
	}
	name, _, _ := strings.Cut(tag, ",")
	switch {
	case name != "":
		return name, f.IsExported() || f.Anonymous && structLike(f.Type)
	case f.Anonymous && structLike(f.Type):
		return "", false
	}
	return f.Name, f.IsExported()
}

// hidden says that a field lies in an embedded struct that is encoded under a name of
// its own, or not at all.
func hidden(t reflect.Type, index []int) bool {
	for n := 1; n < len(index); n++ {
		tag := t.FieldByIndex(index[:n]).Tag.Get("json")
		if name, _, _ := strings.Cut(tag, ","); name != "" {
			return true
		}
	}
	return false
}

func structLike(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}
