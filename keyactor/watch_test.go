package keyactor

import (
	"slices"

	"github.com/pyrula/pyrula-node/flow"
)

// watch sees every record before it is applied and judges it from the table of
// runs alone, with a bookkeeping of its own that shares nothing with the key's: a
// bucket is the list of its starts, a slot is a run with a fence.
type watch struct {
	w        *world
	in       flow.InputKind // the input whose records come
	starts   map[flow.KeyID][]taken
	asked    map[flow.RunID]bool         // the want is under way
	passed   map[flow.RunID]flow.Instant // first token that couldn't be used
	reserved map[flow.RunID]bool
	wants    map[flow.KeyID]map[flow.RunID]bool // awake, by the Rate's key
	refused  int                                // tokens that came back and were lost
}

// taken is a token that was taken and not put back.
type taken struct {
	at   flow.Instant
	run  flow.RunID
	rate rate
}

func newWatch(w *world) watch {
	return watch{
		w: w, starts: make(map[flow.KeyID][]taken), asked: make(map[flow.RunID]bool),
		passed: make(map[flow.RunID]flow.Instant), reserved: make(map[flow.RunID]bool),
		wants: make(map[flow.KeyID]map[flow.RunID]bool),
	}
}

func (v *watch) input(in *flow.Input) { v.in = in.Kind }

func (v *watch) before(rec *flow.Record) {
	switch rec.Kind {
	case flow.RecAdmitted:
		v.admission(rec)
		v.left(rec.Run)
	case flow.RecCancelled, flow.RecTerminated, flow.RecContinued:
		v.left(rec.Run)
	case flow.RecAsked:
		v.asked[rec.Run] = true
	case flow.RecUnused:
		delete(v.asked, rec.Run)
		if v.passed[rec.Run] == 0 {
			v.passed[rec.Run] = rec.At
		}
		if rec.Until != v.passed[rec.Run] {
			v.w.fail("passed over since %d, the record says %d", v.passed[rec.Run], rec.Until)
		}
	case flow.RecReserved:
		v.reservation(rec)
	case flow.RecWanted:
		if v.wants[rec.Key] == nil {
			v.wants[rec.Key] = make(map[flow.RunID]bool)
		}
		v.wants[rec.Key][rec.Run] = true
	case flow.RecUnwanted:
		delete(v.wants[rec.Key], rec.Run)
	case flow.RecTokenGiven:
		v.gift(rec)
	case flow.RecTokenBack:
		v.back(rec)
	}
}

func (v *watch) left(run flow.RunID) {
	delete(v.asked, run)
	delete(v.passed, run)
	delete(v.reserved, run)
}

func (v *watch) back(rec *flow.Record) {
	if rec.Flags.Has(flow.FlagForfeited) {
		v.refused++
		return
	}
	list := v.starts[rec.Key]
	if len(list) == 0 || list[len(list)-1].run != rec.Run {
		v.w.fail("a token was put back that isn't the last one taken (R3)")
	}
	v.starts[rec.Key] = list[:len(list)-1]
}

// open is the promise of a Rate, over every interval that would end with this
// start: what the starts in it cost is at most the burst's worth and the time.
func (v *watch) open(key flow.KeyID, r rate) bool {
	list, cost := v.starts[key], flow.Span(0)
	for _, start := range slices.Backward(list) {
		cost += start.rate.interval
		if cost > flow.Span(r.burst-1)*r.interval+v.w.now.Sub(start.at) {
			return false
		}
	}
	return true
}

func (v *watch) take(key flow.KeyID, run *fakeRun) {
	g := run.stamp.Rate()
	r := rate{interval: g.Interval, burst: g.Burst}
	if !v.open(key, r) {
		v.w.fail("a token of %d/%d was taken from a bucket without one (P4)", g.Interval, g.Burst)
	}
	v.starts[key] = append(v.starts[key], taken{at: v.w.now, run: run.id, rate: r})
}

// gift: the oldest want that is awake, and no older run of the key itself that
// could have used the token, unless it had its time or is left a token.
func (v *watch) gift(rec *flow.Record) {
	run := v.w.run(rec.Run)
	if !v.wants[rec.Key][rec.Run] {
		v.w.fail("a token for a run that doesn't want one")
	}
	for id := range v.wants[rec.Key] {
		if other := v.w.run(id); other.place().before(run.place()) {
			v.w.fail("want %v got its token before %v, which is older (P61)", run.id, id)
		}
	}
	head := v.head(rec.Key)
	v.take(rec.Key, run)
	delete(v.wants[rec.Key], rec.Run)
	if head == nil || !head.place().before(run.place()) || !v.local(head) || v.used(rec.Key) >= head.max() {
		return
	}
	g := head.stamp.Rate()
	tat := v.w.live.key(rec.Key).tat
	spared := max(rate{interval: g.Interval, burst: g.Burst}.opensAt(tat), head.order).Add(headGraceMin)
	if !v.open(rec.Key, rate{interval: g.Interval, burst: g.Burst}) && v.w.now < spared {
		v.w.fail("a want took the token of the older head")
	}
}

func (v *watch) reservation(rec *flow.Record) {
	run := v.w.run(rec.Run)
	since := v.passed[rec.Run]
	if v.reserved[rec.Run] || since == 0 || since.Add(60*flow.Second) > rec.At {
		v.w.fail("a slot set aside for %v, passed over since %d", rec.Run, since)
	}
	if used := v.used(rec.Key); used >= run.max() {
		v.w.fail("a slot set aside with %d used and a max of %d (P3)", used, run.max())
	}
	for id, at := range v.passed {
		if other := v.w.run(id); other.home() == rec.Key && !v.reserved[id] && at < since {
			v.w.fail("a slot set aside for %v before %v, which waits for longer", rec.Run, id)
		}
	}
	v.reserved[rec.Run] = true
}

// used counts slots from the runs: those with a fence, and those set aside.
func (v *watch) used(home flow.KeyID) int64 {
	used := int64(0)
	for _, r := range v.w.live.tenant[home] {
		if r.stamp.Limit() != nil && (r.fence != 0 || v.reserved[r.id]) {
			used++
		}
	}
	return used
}

// head is the oldest run that waits at home and whose want isn't under way.
func (v *watch) head(home flow.KeyID) *fakeRun {
	var head *fakeRun
	for _, r := range v.w.live.tenant[home] {
		if v.waits(r) && (head == nil || r.place().before(head.place())) {
			head = r
		}
	}
	return head
}

func (v *watch) waits(r *fakeRun) bool {
	return r.status == flow.StatusQueued && !v.asked[r.id]
}

// local says that the run needs a token of its home's bucket.
func (v *watch) local(r *fakeRun) bool {
	_, elsewhere := r.stamp.Remote(r.workflow)
	return !r.started && r.stamp.Rate() != nil && !elsewhere
}

// admissible says that the run could be admitted from its home's queue alone.
func (v *watch) admissible(r *fakeRun) bool {
	if v.used(r.home()) >= r.max() {
		return false
	}
	if _, elsewhere := r.stamp.Remote(r.workflow); elsewhere && !r.started {
		return false
	}
	if !v.local(r) {
		return true
	}
	for id := range v.wants[r.home()] {
		if v.w.run(id).place().before(r.place()) {
			return false // an older run stands before it at the bucket
		}
	}
	g := r.stamp.Rate()
	return v.open(r.home(), rate{interval: g.Interval, burst: g.Burst})
}

func (v *watch) admission(rec *flow.Record) {
	run := v.w.run(rec.Run)
	home := run.home()
	used := v.used(home)
	if v.reserved[rec.Run] {
		used = 0 // its slot was taken, and tested against its max, when it was set aside
	}
	if run.status != flow.StatusQueued {
		v.w.fail("run %v is admitted while it is %v", run.id, run.status)
	}
	if used >= run.max() {
		v.w.fail("%d slots are used and one more run is admitted under a max of %d (P3)", used, run.max())
	}
	if needs := !run.started && run.stamp.Rate() != nil; needs != rec.Flags.Has(flow.FlagToken) {
		v.w.fail("needs a token: %t; the admission has one: %t (P4, P53)", needs, !needs)
	}
	if rec.After != 0 {
		v.take(home, run)
		for id := range v.wants[home] {
			if v.w.run(id).place().before(run.place()) {
				v.w.fail("run %v took a token before want %v, which is older (P61)", run.id, id)
			}
		}
	}
	v.order(run, used)
}

// order: nobody older waits who could have been admitted instead (P61, P62).
func (v *watch) order(run *fakeRun, used int64) {
	home := run.home()
	for id, since := range v.passed {
		late := v.w.run(id)
		if late.home() == home && id != run.id && !v.reserved[id] && !v.reserved[run.id] &&
			since.Add(60*flow.Second) <= v.w.now && used+1 >= late.max() {
			v.w.fail("run %v took a slot that was due to %v (R4)", run.id, id)
		}
	}
	head := v.head(home)
	if head == nil || head == run || run.place().before(head.place()) {
		return
	}
	if v.in == flow.InOffer {
		v.w.fail("run %v was admitted by an offer before %v, which is older", run.id, head.id)
	}
	if v.reserved[run.id] {
		return
	}
	if v.used(home) >= head.max() {
		v.w.fail("run %v passed %v, which its Limit holds (P62)", run.id, head.id)
	}
	older := int64(0)
	for _, r := range v.w.live.tenant[home] {
		if v.waits(r) && r.place().before(run.place()) {
			older++
		}
	}
	if v.admissible(head) && used+older >= run.max() {
		v.w.fail("run %v took a slot that %d older runs could use", run.id, older)
	}
}

func (r *fakeRun) place() place { return place{order: r.order, run: r.id} }

// max is the run's own, and without a Limit more than anybody reaches.
func (r *fakeRun) max() int64 {
	if l := r.stamp.Limit(); l != nil {
		return l.Max
	}
	return flow.MaxLimit + 1
}
