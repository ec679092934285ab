package transport_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pyrula/pyrula-node/flow/wire"
)

func TestSchedules(t *testing.T) {
	a := newAPI(t)
	if w := a.send("GET", "/v1/schedules", ""); w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"schedules":[]}` {
		t.Errorf("no schedules are %d %s", w.Code, w.Body)
	}
	body := `{"workflow":"report","params":{"a": 1},"cron":"0 3 * * *","time_zone":"Europe/Paris","catch_up":"all","paused":true}`
	var put, again, read wire.ScheduleView
	w := a.send("PUT", "/v1/schedules/nightly%20report", body)
	w.ok(200, &put)
	if !strings.Contains(w.Body.String(), `"next":[]`) || !strings.Contains(w.Body.String(), `"params":{"a":1}`) {
		t.Errorf("a schedule is answered as %s", w.Body)
	}
	a.send("PUT", "/v1/schedules/nightly%20report", body).ok(200, &again)
	a.send("GET", "/v1/schedules/nightly%20report", "").ok(200, &read)
	want := wire.Schedule{
		Name: "nightly report", Workflow: "report", Params: []byte(`{"a":1}`), Cron: "0 3 * * *", TimeZone: "Europe/Paris", CatchUp: "all", Paused: true,
	}
	if diff := cmp.Diff(want, read.Schedule); diff != "" || !put.Changed || again.Changed || read.Changed {
		t.Errorf("changed %v, %v, %v; read back (-want +got):\n%s", put.Changed, again.Changed, read.Changed, diff)
	}
	a.send("POST", "/v1/schedules", `{"name":"hourly","workflow":"w","every_seconds":0.5,"start_ms":1}`).ok(200, &put)
	if put.Name != "hourly" || *put.EverySeconds != 0.5 || *put.StartMS != 1 {
		t.Errorf("posted %+v", put)
	}
	var list wire.ScheduleList
	a.send("GET", "/v1/schedules", "").ok(200, &list)
	if len(list.Schedules) != 2 || list.Schedules[0].Name != "hourly" {
		t.Errorf("the list is %+v, want both by name", list.Schedules)
	}
	var gone wire.ScheduleDeleted
	a.send("DELETE", "/v1/schedules/hourly", "").ok(200, &gone)
	if gone.Name != "hourly" {
		t.Errorf("deleted %+v", gone)
	}
	for _, method := range []string{"GET", "DELETE"} {
		for _, name := range []string{"hourly", "", "%00", long[:129]} {
			p := a.send(method, "/v1/schedules/"+name, "")
			want := ""
			if name != "hourly" {
				want = "name"
			}
			if p.refused(wire.CodeUnknownSchedule, want); p.Code != 404 {
				t.Errorf("%s of schedule %q answers %d", method, name, p.Code)
			}
		}
	}
	a.send("PUT", "/v1/schedules/", `{"workflow":"w","at_ms":1}`).refused(wire.CodeInvalid, "name")
	a.send("PUT", "/v1/schedules/x", `{"name":"x","workflow":"w","at_ms":1}`).ok(200, nil)
}

// What is the default may be said, also as null.
func TestScheduleDefaults(t *testing.T) {
	a := newAPI(t)
	for _, body := range []string{
		`{"workflow":"w","at_ms":1}`,
		`{"name":null,"workflow":"w","params":null,"cron":null,"time_zone":null,"every_seconds":null,"start_ms":null,"at_ms":1,"catch_up":null,"paused":null}`,
		`{"workflow":"w","cron":"","at_ms":1,"catch_up":"","paused":false,"time_zone":""}`,
	} {
		var got wire.ScheduleView
		a.send("PUT", "/v1/schedules/s", body).ok(200, &got)
		if diff := cmp.Diff(wire.Schedule{Name: "s", Workflow: "w", AtMS: new(int64(1))}, got.Schedule); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}
