package keyexpr

import (
	"fmt"
	"testing"
)

// Fails when declarations fill the memory, or push out what is in use.
func TestP57CompiledExpressionsAreBounded(t *testing.T) {
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Check("limit.key", `params.used`); err != nil {
		t.Fatal(err)
	}
	used := e.programs.find(`params.used`)
	for i := range 3 * maxPrograms {
		e.programs.keep(fmt.Sprintf("params.p%d", i), &program{})
		if i%100 == 0 && e.programs.find(`params.used`) != used {
			t.Fatalf("after %d others the one in use is gone", i)
		}
		if n := len(e.programs.young) + len(e.programs.old); n > maxPrograms {
			t.Fatalf("%d programs are kept, at most %d may be", n, maxPrograms)
		}
	}
	if e.programs.find(`params.p0`) != nil {
		t.Error("what nobody used is kept")
	}
	bad, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := bad.Check("limit.key", fmt.Sprintf("p%d", i)); err == nil {
			t.Errorf("p%d is an expression", i)
		}
	}
	if n := len(bad.programs.young) + len(bad.programs.old); n != 0 {
		t.Errorf("%d refusals are kept", n)
	}
}

// Fails when more of the object is read than an expression can see, or less.
func TestP12ReadsWhatTheExpressionNames(t *testing.T) {
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for expression, want := range map[string]string{
		`params.a + event.b.c`: "[params.a event.b.c]", `has(params.a.b) ? params.?a.b.orValue("") : params["x y"]`: `[params.a.b params.a.b params["x y"]]`,
		`params.l[0].id`: "[params.l]", `params[params.k]`: "[params params.k]", `params.l.exists(x, x.id == params.id)`: "[params.l params.id]",
		`(has(params.a) ? params.a : params.b).c`: "[params.a params.a params.b]", `params.l.all(params, params.x)`: "[params.l params.x]", `.params.a`: "[params.a]",
		`params.a.b.c.d.e.f.g.h.i.j`: "[params.a.b.c.d.e.f.g.h]", `size(params)`: "[params]", `1`: "[]", `params.l[?1].x.orValue("")`: "[params.l]",
		`params.a[?"b"].c.orValue("")`: "[params.a.b.c]",
	} {
		p, err := e.program("limit.key", expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.paths); got != want {
			t.Errorf("%s reads %s, it must read %s", expression, got, want)
		}
	}
}
