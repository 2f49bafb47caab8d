package replica

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
	"pgregory.net/rapid"
)

// Against a list of all that was noted: what is said is right, and it is said of the newest ones.
func TestCommitTimesAgainstAList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c commitTimes
		list := []commitTime{{rapid.Uint64Range(0, 3).Draw(t, "base"), 0}}
		c.note(list[0].to, 0)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for i := range rapid.IntRange(0, 3*commitsKept).Draw(t, "commits") {
			x := commitTime{list[len(list)-1].to + random.Uint64N(3), int64(i + 1)}
			if c.note(x.to, x.at); x.to > list[len(list)-1].to {
				list = append(list, x)
			}
		}
		known := max(0, len(list)-commitsKept)
		for off := range list[len(list)-1].to + 2 {
			want := int64(0)
			for i := len(list) - 1; i > known && off < list[i].to; i-- {
				want = list[i].at
				if off >= list[i-1].to {
					break
				}
			}
			if off < list[known].to {
				want = 0
			}
			if got := c.of(off); got != want {
				t.Fatalf("offset %d: %d, want %d", off, got, want)
			}
		}
	})
}

// What is kept costs nothing for each commit.
func TestCommitTimesDoNotAllocate(t *testing.T) {
	var c commitTimes
	to := uint64(0)
	note := func() {
		to++
		c.note(to, 1)
	}
	for range commitsKept {
		note()
	}
	if n := testing.AllocsPerRun(2*commitsKept, note); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func (o *one) traced(offset uint64) *mqpb.TraceResponse {
	o.t.Helper()
	return call(o.t, func(done func(*mqpb.TraceResponse, error)) { o.p.Trace(offset, false, done) })
}

func (o *one) traceCommit(offset uint64) *mqpb.TraceEvent {
	o.t.Helper()
	for _, ev := range o.traced(offset).Events {
		if ev.Type == eventReplicated {
			return ev
		}
	}
	o.t.Fatal("no commit in the trace")
	return nil
}

// A message is committed after its publish and before the answer, whatever is written after it, over a roll too. A leader
// that did not see it makes nothing up.
func TestTraceSaysWhenItWasCommitted(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	type sent struct{ stamp, answered int64 }
	var list []sent
	put := func() {
		list = append(list, sent{o.publish("m").Stamp, time.Now().UnixNano()})
	}
	check := func(when string) {
		t.Helper()
		for off, s := range list {
			if ev := o.traceCommit(uint64(off)); ev.At <= s.stamp || ev.At > s.answered || ev.AtLatest != 0 {
				t.Errorf("%s: offset %d committed at %d, at latest %d; published at %d and answered at %d", when, off, ev.At, ev.AtLatest, s.stamp, s.answered)
			}
		}
	}
	put()
	check("before anything else is written")
	put()
	o.group(1, nil)
	o.settle(delivery.Ack, o.receive(1, 1)...)
	check("after an ack")
	o.open()
	put()
	check("after a roll")
	o.restart()
	if ev := o.traceCommit(2); ev.At != 0 || ev.AtLatest != 0 {
		t.Errorf("the newest one, by a leader that did not see it: %v", ev)
	}
}

// The stamp of the next entry stands for the commit if it is close, and bounds it if it is not; that of another leader
// is from another clock.
func TestCommitTimeFromTheNextEntry(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.publish("one")
	o.group(1, nil)
	o.inside(func(l *leadership) { l.commits = nil })
	var next *mq.Entry
	o.inside(func(l *leadership) {
		j := l.journal()
		e, err := o.p.entry(l.ctx, &j, 0)
		if err == nil {
			err = o.p.walk(l.ctx, &j.open, e.Next(), func(e *mq.Entry) error { next = e; return errStop })
		}
		if err != nil || next == nil {
			t.Errorf("next entry: %v, %v", next, err)
			return
		}
		for age, want := range map[int64][2]int64{
			1: {next.Stamp, 0}, commitNear: {next.Stamp, 0}, commitNear + 1: {0, next.Stamp}, 1e12: {0, next.Stamp},
			0: {}, -1: {}, // the clock was set back
		} {
			published := *e
			published.Stamp = next.Stamp - age
			at, latest, err := o.p.committedAt(l.ctx, &j, &published, 0)
			if got := [2]int64{at, latest}; err != nil || got != want {
				t.Errorf("published %d ns before: %v, %v, want %v", age, got, err, want)
			}
		}
	})
	a, b := mq.Incarnation{Store: "a", Boot: 1}, mq.Incarnation{Store: "b", Boot: 1}
	for _, c := range []struct {
		one, other mq.Segment
		same       bool
	}{
		{mq.Segment{ID: 1, Leader: a}, mq.Segment{ID: 1, Leader: a}, true}, {mq.Segment{ID: 1, Leader: a}, mq.Segment{ID: 2, Leader: a}, true},
		{mq.Segment{ID: 1, Leader: a}, mq.Segment{ID: 2, Leader: b}, false}, {mq.Segment{ID: 1}, mq.Segment{ID: 2}, false},
	} {
		if sameLeader(&c.one, &c.other) != c.same {
			t.Errorf("%+v", c)
		}
	}
}

// The hand-over bounds what the next entry says.
func TestCommitIsBeforeTheHandOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, latest, handed, wantAt, wantLatest int64 }{
		{at: 15, handed: 20, wantAt: 15}, {at: 15, handed: 12, wantAt: 12}, {latest: 90, handed: 50, wantLatest: 50},
		{handed: 50}, {at: 15, handed: 9, wantAt: 15}, // the clock was set back
	} {
		res := &mqpb.TraceResponse{Events: []*mqpb.TraceEvent{{Type: delivery.EventPublished, At: 10}, {Type: delivery.EventSeek, At: 11},
			{Type: delivery.EventDelivered, At: c.handed}}}
		ev := &mqpb.TraceEvent{Type: eventReplicated, At: c.at, AtLatest: c.latest}
		insertReplicated(res, ev)
		if res.Events[1] != ev || ev.At != c.wantAt || ev.AtLatest != c.wantLatest {
			t.Errorf("%+v: %v", c, ev)
		}
	}
}

// The groups of a trace say what explain says: also how a message was settled.
func TestTraceGroupsSayHowItWasSettled(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	var b mq.BatchBuilder
	for range 2 {
		b.Add(&mq.Message{Key: []byte("k"), Lane: mq.LaneNormal})
	}
	want := map[uint64]string{1: "acked", 2: "skipped", 3: "filtered", 4: "ready", 5: "dead", 6: "leased", 7: "ready", 8: "dead_removed"}
	for g := range mq.GroupID(8) {
		o.group(g+1, func(s *mq.GroupSettings) {
			if g+1 == 3 {
				s.Filter = mq.Filter{{Name: "kind", Values: []string{"other"}}}
			}
		})
	}
	o.append(&b)
	o.settle(delivery.Ack, o.receive(1, 2)...)
	moved := make(chan *mqpb.SeekResult, 1)
	o.p.Seek(&mqpb.SeekRequest{Group: 2, To: "latest"}, func(r *mqpb.SeekResult) { moved <- r })
	if r := <-moved; r.Code != 0 {
		t.Fatal(r)
	}
	o.receive(3, 2)
	o.settle(delivery.Reject, o.receive(5, 2)...)
	o.receive(6, 2)
	o.settle(delivery.Reject, o.receive(8, 2)...)
	call(t, func(done func(*mqpb.DeadLettersResponse, error)) {
		o.p.DeadLetters(&mqpb.DeadLettersRequest{Group: 8, Act: "remove", Limit: 100}, done)
	})
	for _, when := range []string{"at once", "after a roll"} {
		got := map[uint64]string{}
		for _, g := range o.traced(1).Groups {
			got[g.Group] = g.State
			if said := o.explain(mq.GroupID(g.Group), 1).State; said != g.State {
				t.Errorf("%s: group %d: the trace says %q, explain %q", when, g.Group, g.State, said)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
		o.open()
	}
}
