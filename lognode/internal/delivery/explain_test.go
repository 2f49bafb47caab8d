package delivery

import (
	"reflect"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// when is a time after the tests' beginning, as sentences have it.
func when(d time.Duration) string {
	return time.Unix(0, base).Add(d).UTC().Format("2006-01-02 15:04:05") + " UTC"
}

// explains asks as a leader does whose group was asked for just now.
func (j *journal) explains(off uint64) Explanation {
	j.t.Helper()
	e, ok := j.m.Explain(Question{Group: 1, Offset: off, Now: j.now, Asked: j.now})
	if !ok {
		j.t.Fatal("the group is unknown")
	}
	return e
}

// told also takes what the journal says, of a message that is settled.
func (j *journal) told(off uint64) Explanation {
	j.t.Helper()
	e := j.explains(off)
	if e.State != StateAcked.String() {
		return e
	}
	j.cut(0)
	var events []Event
	for i := range j.entries {
		if err := TraceEntry(&j.entries[i], off, func(ev Event) {
			if ev.Group == 1 {
				events = append(events, ev)
			}
		}); err != nil {
			j.t.Fatal(err)
		}
	}
	return ExplainEvents(events)
}

// Each case has a group with five messages, of which the one at offset 2 is asked about.
func TestExplain(t *testing.T) {
	const s = int64(time.Second)
	normal := func(n uint64) (ahead [mq.Lanes]uint64) {
		ahead[mq.LaneNormal] = n
		return ahead
	}
	first3 := func(j *journal) []mq.Receipt { return receipts(j.receive(1, 3, 1)) }
	for name, c := range map[string]struct {
		group func(*GroupConfig)
		do    func(j *journal)
		want  Explanation
	}{
		"behind two": {want: Explanation{State: "ready", Because: "2 messages go first (normal)", Ahead: normal(2)}},
		"next": {do: func(j *journal) { j.receive(1, 2, 1) },
			want: Explanation{State: "ready", Because: "it is next: it goes to the next consumer that asks"}},
		"before the start": {group: func(c *GroupConfig) { c.Start = 3 },
			want: Explanation{State: "before_start", Because: "the group starts after it, at offset 3"}},
		"paused": {group: func(c *GroupConfig) { c.Paused = true },
			want: Explanation{State: "ready", Because: "the group is paused; 2 messages go first (normal)", Ahead: normal(2)}},
		"in flight": {group: func(c *GroupConfig) { c.Settings.MaxInFlight = 1 }, do: func(j *journal) { j.receive(1, 1, 1) },
			want: Explanation{State: "ready", Because: "max_in_flight is reached: 1 message is leased; 1 message goes first (normal)", Ahead: normal(1)}},
		"not looked at": {group: func(c *GroupConfig) { c.Settings.Filter = thirds },
			want: Explanation{State: "ready", Because: "the group's filter has not looked at it yet; 2 messages go first (normal)", Ahead: normal(2)}},
		"leased": {do: func(j *journal) { first3(j) },
			want: Explanation{State: "leased", Because: "c has it until " + when(10*time.Second) + " (attempt 1)", Until: base + 10*s, Attempt: 1, Consumer: "c"}},
		"waiting": {do: func(j *journal) {
			item := SettleItem{Receipt: first3(j)[2], Outcome: Nack, Delay: 7 * s, Reason: "card declined"}
			j.m.Settle(j.now, []SettleItem{item}, nil)
		}, want: Explanation{State: "waiting", Until: base + 7*s, Attempt: 1, Consumer: "c", Reason: "card declined",
			Because: "attempt 2 is not before " + when(7*time.Second) + "; attempt 1 failed: card declined"}},
		"again": {do: func(j *journal) {
			item := SettleItem{Receipt: first3(j)[2], Outcome: Nack, Delay: 0, Reason: "card declined"}
			j.m.Settle(j.now, []SettleItem{item}, nil)
		}, want: Explanation{State: "ready", Because: "it is next: it goes to the next consumer that asks", Attempt: 1, Consumer: "c", Reason: "card declined"}},
		"dead": {do: func(j *journal) { j.want(Reject, SettleOK, StateDead, first3(j)[2]) },
			want: Explanation{State: "dead", Because: "it is a dead letter since " + when(0) + ", after 1 attempt: because", Since: base, Attempt: 1, Consumer: "c", Reason: "because"}},
		"dead, removed": {do: func(j *journal) {
			j.want(Reject, SettleOK, StateDead, first3(j)[2])
			j.pass(time.Second)
			_, _ = j.m.RemoveDead(j.now, 1, []uint64{2})
		}, want: Explanation{State: "dead_removed", Because: "it was a dead letter and was removed at " + when(time.Second) + ": " + deadReasons[deadDeleted],
			Since: base + s, Attempt: 1, Consumer: "c", Reason: deadReasons[deadDeleted]}},
		"acked": {do: func(j *journal) { j.want(Ack, SettleOK, StateAcked, first3(j)[2]) },
			want: Explanation{State: "acked", Because: "c acknowledged it at " + when(0), Since: base, Attempt: 1, Consumer: "c"}},
		"filtered": {group: func(c *GroupConfig) { c.Settings.Filter = thirds }, do: func(j *journal) {
			w, _ := j.m.Unseen(1)
			j.m.Seen(j.now, 1, w, nil)
		}, want: Explanation{State: "filtered", Because: "the group's filter does not want it; looked at " + when(0), Since: base}},
		"expired": {do: func(j *journal) {
			j.receive(1, 3, 7)
			j.m.Lapse(j.now, 1, 7, []uint64{2})
		}, want: Explanation{State: "expired", Because: "its TTL was over at " + when(0) + ", when its turn came", Since: base, Attempt: 1, Consumer: "c", Reason: ReasonLapsed}},
		"dropped": {do: func(j *journal) { j.m.Drop(j.now, 3) },
			want: Explanation{State: "dropped", Because: "retention removed it at " + when(0) + ", before it was settled", Since: base, Reason: reasonDropped}},
		"skipped": {do: func(j *journal) { _, _ = j.m.SeekGroup(j.now, 1, SeekTarget{Offset: 4}) },
			want: Explanation{State: "skipped", Because: "a seek passed over it at " + when(0) + ": the group went to offset 4",
				Since: base, Reason: "the group went to offset 4"}},
		"lost": {do: func(j *journal) { j.m.Hole(1, 3) },
			want: Explanation{State: "lost", Because: "it is lost with the data that held it"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			j.cut(5)
			j.group(1, c.group)
			if c.do != nil {
				c.do(j)
			}
			if got := j.told(2); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// A consumer that asks for messages from time to time is one; the leader says since when there is none.
func TestExplainNobodyAsks(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(1)
	for ago, want := range map[time.Duration]string{
		10 * time.Second: "it is next: it goes to the next consumer that asks",
		11 * time.Second: "no consumer has asked for messages since " + when(-11*time.Second),
	} {
		if e, _ := j.m.Explain(Question{Group: 1, Now: base, Asked: base - int64(ago)}); e.Because != want {
			t.Errorf("%s ago: %q, want %q", ago, e.Because, want)
		}
	}
	if _, ok := j.m.Explain(Question{Group: 2, Now: base, Asked: base}); ok {
		t.Error("a group that is unknown has an explanation")
	}
}

// Two lanes: four normal messages, then two critical ones. What is ahead is what comes first when they are taken one by
// one, strict or by weight.
func TestExplainAheadIsWhatComesFirst(t *testing.T) {
	n, c := mq.LaneNormal, mq.LaneCritical
	for _, mode := range []string{mq.LanesStrict, mq.LanesWeighted} {
		j := newJournal(t)
		j.group(1, func(g *GroupConfig) { g.Settings.Lanes.Mode = mode })
		j.publish(n, n, n, n, c, c)
		said := map[uint64]uint64{}
		for off := range uint64(6) {
			for _, n := range j.explains(off).Ahead {
				said[off] += n
			}
		}
		for i := range uint64(6) {
			off := offsets(j.receive(1, 1, i+1))[0]
			if said[off] != i {
				t.Errorf("%s: offset %d came after %d others, %d were to come first", mode, off, i, said[off])
			}
		}
	}
}

// What settled a message last counts, also after it was opened again.
func TestExplainEventsInOrder(t *testing.T) {
	ev := func(kind, reason string, at int64) Event { return Event{Type: kind, Reason: reason, At: at} }
	for name, c := range map[string]struct {
		events []Event
		state  string
		since  int64
	}{
		"nothing":                  {nil, ExplainSettled, 0},
		"acked, then passed over":  {[]Event{ev(EventDelivered, "", 1), ev(EventAcknowledged, "", 2), ev(EventSeek, "", 3)}, "acked", 2},
		"back, and not wanted":     {[]Event{ev(EventAcknowledged, "", 2), ev(EventSeek, "", 3), ev(EventFiltered, "", 4)}, ExplainFiltered, 4},
		"back, and acked again":    {[]Event{ev(EventAcknowledged, "", 2), ev(EventSeek, "", 3), ev(EventDelivered, "", 4), ev(EventAcknowledged, "", 5)}, "acked", 5},
		"two seeks":                {[]Event{ev(EventSeek, "", 3), ev(EventSeek, "", 4)}, ExplainSkipped, 4},
		"dropped after it was":     {[]Event{ev(EventAcknowledged, "", 2), ev(EventExpired, reasonDropped, 4)}, "acked", 2},
		"an expired lease is none": {[]Event{ev(EventDelivered, "", 1), ev(EventExpired, "lease", 2)}, ExplainSettled, 0},
		"redriven":                 {[]Event{ev(EventDead, "", 1), ev(EventRedriven, "", 2), ev(EventDelivered, "", 3), ev(EventAcknowledged, "", 4)}, "acked", 4},
	} {
		if e := ExplainEvents(c.events); e.State != c.state || e.Since != c.since {
			t.Errorf("%s: %+v, want %s since %d", name, e, c.state, c.since)
		}
	}
}

func TestExplainDue(t *testing.T) {
	if e := ExplainDue(base, base+1); e.State != ExplainScheduled || e.Until != base+1 || e.Because != "it is not due until "+when(0) {
		t.Errorf("before: %+v", e)
	}
	if e := ExplainDue(base, base); e.Because != "it was due at "+when(0)+" and is about to be released" {
		t.Errorf("at the time: %+v", e)
	}
}

// In a group that orders by key a message says which earlier one it waits for, and does not count those that wait too.
func TestExplainParked(t *testing.T) {
	j := newJournal(t)
	j.group(1, byKey)
	j.keyed("a", "a", "b", "b", "c")
	j.offsets([]uint64{0, 2, 4}, j.receive(1, 9, 1))
	j.m.Return(j.now, 1, 1, 4) // c=4 is ready again: a=1 and b=3 are before it, and parked
	for off, want := range map[uint64]Explanation{
		1: {State: ExplainParked, Behind: 0, Because: "an earlier message of its key, at offset 0, is leased"},
		3: {State: ExplainParked, Behind: 2, Because: "an earlier message of its key, at offset 2, is leased"},
		4: {State: "ready", Because: "it is next: it goes to the next consumer that asks"},
	} {
		if got := j.explains(off); !reflect.DeepEqual(got, want) {
			t.Errorf("offset %d: got  %+v\nwant %+v", off, got, want)
		}
		if h := j.m.MessageState(off)[0]; h.State.String() != want.State || h.Behind != want.Behind {
			t.Errorf("offset %d: a trace says %+v, want %+v", off, h, want)
		}
	}
}
