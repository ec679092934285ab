package pyrulatest_test

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pyrula/pyrula-node/pyrula"
	"github.com/pyrula/pyrula-node/pyrula/pyrulatest"
)

// failing is a test that notes how it fails.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Errorf(format string, args ...any) { f.said += fmt.Sprintf(format, args...) }

func (f *failing) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func (f *failing) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

// said is how a use of the Env fails.
func said(t *testing.T, env *pyrulatest.Env, use func(env *pyrulatest.Env)) string {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		use(pyrulatest.Told(env, f))
	}()
	<-done
	if f.said == "" {
		t.Error("it doesn't fail")
	}
	return regexp.MustCompile(`run_\w{26}`).ReplaceAllString(f.said, "RUN")
}

// TestFailuresExplain fails when the failure of a test doesn't say how the run stands,
// what it waits for, and what has happened to it.
func TestFailuresExplain(t *testing.T) {
	held := pyrula.Define("held", func(r *pyrula.Run, _ Order) (Receipt, error) {
		<-r.Done()
		return Receipt{}, r.Err()
	}, pyrula.Limit{Key: "tenant", Max: 1})
	pyrulatest.Test(t, func(t *testing.T, env *pyrulatest.Env) {
		env.Advance(time.Minute)
		pyrulatest.Start(env, held, Order{Tenant: "acme"})
		second := pyrulatest.Start(env, held, Order{Tenant: "acme"})
		broken := pyrulatest.Start(env, Refund, Order{})
		fine := pyrulatest.Start(env, Charge, Order{})
		env.Advance(time.Minute)
		waits := "	run RUN of workflow \"held\" is queued at 2m0s\n" +
			"	why: It waits for a slot: 1 of 1 of limit key \"acme\" are taken, and it is number 1 in the queue.\n" +
			"	held by run RUN, executing\n" +
			"	        1m0s  run:init\n"
		failed := "	run RUN of workflow \"refund\" is failed at 2m0s: error: the bank is down\n" +
			"	        1m0s  run:init\n" +
			"	        1m0s  run:claimed, attempt 1\n" +
			"	        1m0s  run:failed, attempt 1, error: the bank is down\n"
		for name, c := range map[string]struct {
			use  func(env *pyrulatest.Env)
			want string
		}{
			"expect": {
				func(env *pyrulatest.Env) { env.Expect(second.ID, "executing") },
				"the run is queued, want executing\n" + waits,
			},
			"failed result": {
				func(env *pyrulatest.Env) { pyrulatest.Result(env, broken) },
				"the run is failed, want completed\n" + failed,
			},
			"no failure": {
				func(env *pyrulatest.Env) { pyrulatest.Failure(env, fine) },
				"the run is completed, want failed\n",
			},
			"unknown run": {
				func(env *pyrulatest.Env) { env.Status("run_00000000000000000000000000") },
				"unknown_run",
			},
		} {
			if got := said(t, env, c.use); !strings.HasPrefix(got, c.want) && !strings.Contains(got, c.want) {
				t.Errorf("%s says\n%s\nwant\n%s", name, got, c.want)
			}
		}
		env.Patience = time.Minute
		got := said(t, env, func(env *pyrulatest.Env) { pyrulatest.Result(env, second) })
		if want := "the run has not ended within 1m0s of virtual time (see Env.Patience), want completed\n"; !strings.HasPrefix(got, want) {
			t.Errorf("it says\n%s\nwant\n%s", got, want)
		}
		if env.Elapsed() != 3*time.Minute {
			t.Errorf("the test gave up at %v", env.Elapsed())
		}
	}, held, Charge, Refund)
}
