package pyrula

import (
	"fmt"
	"reflect"

	"github.com/pyrula/pyrula-node/flow"
	"github.com/pyrula/pyrula-node/flow/wire"
)

// keyFunction says whether key is a function from in to a text, alone or with an
// error. Named function types count.
func keyFunction(in reflect.Type, key any) bool {
	v := reflect.ValueOf(key)
	t := v.Type()
	if t.Kind() != reflect.Func || v.IsNil() || t.IsVariadic() || t.NumIn() != 1 || t.In(0) != in {
		return false
	}
	switch t.NumOut() {
	case 1:
		return t.Out(0).Kind() == reflect.String
	case 2:
		return t.Out(0).Kind() == reflect.String && t.Out(1) == reflect.TypeFor[error]()
	}
	return false
}

// resolver computes the keys that are functions of In.
type resolver[In any] struct {
	limit, rate func(In) (string, error) // nil: not a function key
}

// keyOf makes a checked function key callable.
func keyOf[In any](key any) func(In) (string, error) {
	switch f := key.(type) {
	case nil, string:
		return nil
	case func(In) string:
		return func(in In) (string, error) { return f(in), nil }
	case func(In) (string, error):
		return f
	}
	v := reflect.ValueOf(key) // a named type, or one that returns a named string
	return func(in In) (string, error) {
		// Elem of a pointer keeps the static type when In is an interface.
		out := v.Call([]reflect.Value{reflect.ValueOf(&in).Elem()})
		if len(out) == 2 && !out[1].IsNil() {
			return "", out[1].Interface().(error) // keyFunction has checked the type
		}
		return out[0].String(), nil
	}
}

// stamp resolves the function keys for in; nil when there are none, because then the
// node resolves the keys from the parameters itself. Error: *[ConfigurationError].
func (r resolver[In]) stamp(d *definition, in In) (*wire.Stamp, error) {
	if r.limit == nil && r.rate == nil {
		return nil, nil
	}
	s := &wire.Stamp{Version: d.version, Keys: &wire.StampKeys{}}
	for _, k := range []struct {
		field string
		of    func(In) (string, error)
		into  **string
	}{{"limit.key", r.limit, &s.Keys.Limit}, {"rate.key", r.rate, &s.Keys.Rate}} {
		if k.of == nil {
			continue
		}
		text, err := d.keyText(k.field, func() (string, error) { return k.of(in) })
		if err != nil {
			return nil, err
		}
		*k.into = &text
	}
	return s, nil
}

// keyText computes a key by a user's function: one that fails, panics or gives no key
// makes no run (P60). Error: *[ConfigurationError].
func (d *definition) keyText(field string, of func() (string, error)) (string, error) {
	text, err := guarded(of)
	if err != nil {
		return "", d.wrong(field, "must give a text: "+err.Error())
	}
	if err := flow.CheckKey(field, text); err != nil {
		return "", misconfigured(d.name, err)
	}
	return text, nil
}

// guarded turns the panic of a user's function into an error.
func guarded(f func() (string, error)) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the function panicked: %v", p)
		}
	}()
	return f()
}
