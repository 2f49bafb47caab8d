package delivery

import (
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// oracle is the dumbest account of what a group may do: a map per group, one entry per offset that was touched.
type oracle struct {
	generation uint64
	snapshots  map[string]map[uint64]kept
	filters    bool
	seen       uint64 // how far its filter has looked
	limits     mq.DeadLimits
	died       map[uint64]int64
	state      map[uint64]State
	attempt    map[uint64]uint32
	fence      map[uint64]fence
	until      map[uint64]int64
	first      map[uint64]int64 // when it was handed out first and last
	last       map[uint64]int64
}

type world struct {
	*journal
	t       *rapid.T
	groups  map[mq.GroupID]*oracle
	held    []held // every receipt that was ever given, and how
	next    uint64 // delivery id
	created uint64
	lanes   []mq.Lane // of each offset
	laned   bool      // others than the normal one are in use
	keys    []string
	byKey   bool // groups but the second order by key
}

type held struct {
	mq.Receipt
	stream, delivery uint64
	attempt          uint32
	confirmed        bool
}

func newWorld(t *rapid.T, tb testing.TB, laned, byKey bool) *world {
	w := &world{journal: newJournal(tb), t: t, groups: map[mq.GroupID]*oracle{}, laned: laned, byKey: byKey}
	w.ensure(1)
	return w
}

func (w *world) ensure(id mq.GroupID) {
	if w.groups[id] == nil {
		w.groups[id] = &oracle{1, map[string]map[uint64]kept{}, id == 3, 0, limitsOf(id), map[uint64]int64{}, map[uint64]State{}, map[uint64]uint32{}, map[uint64]fence{}, map[uint64]int64{}, map[uint64]int64{}, map[uint64]int64{}}
		for _, h := range w.holes {
			w.groups[id].lose(h)
		}
		w.groups[id].lose(span{0, w.base})
	}
	w.created++
	w.group(id, func(c *GroupConfig) {
		c.Version, c.Start = w.created, rapid.Uint64Range(0, w.base).Draw(w.t, "start") // below the base is at it
		c.Settings.MaxInFlight = 12
		c.Settings.Backoff.Jitter = 0.5
		if id == 2 {
			c.Settings.Lanes.Mode = mq.LanesStrict
		} else if w.byKey {
			c.Settings.Ordering = mq.OrderingKey
		}
		c.Settings.Dead = limitsOf(id)
		if id == 3 {
			c.Settings.Filter = thirds
		}
	})
}

// tick moves time and fires, and lets the oracle expire what was due.
func (w *world) tick(d int64) {
	w.now += d
	for w.m.timer.ID != 0 && w.m.timer.Due <= w.now {
		w.m.Fire(w.now, w.m.timer.ID)
	}
	w.weigh()
	for id, o := range w.groups {
		for off, s := range o.state {
			if s == StateLeased && o.until[off] <= w.now {
				o.fail(w.m, id, off, w.now, -1)
			}
			if o.state[off] == StateWaiting && o.until[off] <= w.now {
				o.state[off] = StateReady
			}
		}
		o.trim(w.now)
	}
}

func (o *oracle) fail(m *Machine, id mq.GroupID, off uint64, now, delay int64) {
	if o.attempt[off] >= 3 {
		o.state[off], o.died[off] = StateDead, now
		return
	}
	if delay < 0 {
		delay = backoff(m.groups[id].Settings.Backoff, id, off, o.attempt[off])
	}
	o.state[off], o.until[off] = StateWaiting, now+delay
	if delay == 0 {
		o.state[off] = StateReady
	}
}

func (w *world) receive(id mq.GroupID, n int, stream uint64) {
	w.next++
	w.look(id)
	w.teach(w.t, id)
	g := w.ask(w.t, ReceiveRequest{Group: id, Max: n, Consumer: "c", Stream: stream, Delivery: w.next, Seen: true})
	o := w.groups[id]
	want, total := w.expect(o, w.m.groups[id].Settings, n)
	got := offsets(g)
	if len(got) != total {
		w.t.Fatalf("got %v, want %d of %v", got, total, want)
	}
	must, lane := w.ordered(id) && total > 0, mq.LaneCritical
	for _, r := range receipts(g) {
		off, l := r.Offset, w.lanes[r.Offset]
		if l < lane || off != want[l][0] {
			w.t.Fatalf("got %v, want the first of %v by lane", got, want)
		}
		lane, want[l] = l, want[l][1:]
		f := fence{r.Segment, r.Counter}
		if !o.fence[off].less(f) {
			w.t.Fatalf("offset %d: fence %v after %v", off, f, o.fence[off])
		}
		o.state[off], o.fence[off], o.until[off] = StateLeased, f, g.LeaseUntil
		o.attempt[off]++
		if o.last[off] = w.now; o.attempt[off] == 1 || o.first[off] == 0 {
			o.first[off] = w.now
		}
		must = must || o.attempt[off] > 1
		w.held = append(w.held, held{r, stream, w.next, o.attempt[off], false})
	}
	if must != g.MustCommit || must && !w.m.Urgent() {
		w.t.Fatalf("must commit %v, urgent %v; want %v", g.MustCommit, w.m.Urgent(), must)
	}
}

// expect is what is ready by lane, in order, and how many messages a receive of n must get.
func (w *world) expect(o *oracle, s mq.GroupSettings, n int) (ready [mq.Lanes][]uint64, total int) {
	var leased [mq.Lanes]int
	out := 0
	for off, l := range w.lanes {
		if _, touched := o.state[uint64(off)]; o.filters && !touched && uint64(off) >= o.seen {
			continue
		}
		switch o.state[uint64(off)] {
		case StateReady: // the zero value: untouched
			if s.Ordering == mq.OrderingNone || w.first(o, off) {
				ready[l] = append(ready[l], uint64(off))
			}
		case StateLeased:
			leased[l]++
			out++
		}
	}
	weights, competing := 0, 0
	for l := range ready {
		if len(ready[l]) > 0 {
			weights += s.Lanes.Weight(mq.Lane(l))
			competing++
		}
	}
	for l := range ready {
		most := len(ready[l])
		if competing > 1 && !s.Lanes.Strict() {
			most = min(most, max(1, 12*s.Lanes.Weight(mq.Lane(l))/weights)-leased[l])
		}
		total += max(0, most)
	}
	return ready, max(0, min(total, n, 12-out))
}

func (w *world) ordered(id mq.GroupID) bool {
	return w.m.groups[id].Settings.Ordering == mq.OrderingKey
}

// first says whether a message may go out in the order of its key: none of the key is leased, and none before it is
// neither settled nor dead.
func (w *world) first(o *oracle, off int) bool {
	for i, key := range w.keys {
		if s := o.state[uint64(i)]; key == w.keys[off] && key != "" &&
			(s == StateLeased || i < off && s != StateAcked && s != StateDead) {
			return false
		}
	}
	return true
}

// publish adds n messages in random lanes, or in the normal one.
func (w *world) publish(t *rapid.T, n int) {
	lane := rapid.SampledFrom([]mq.Lane{mq.LaneNormal, mq.LaneNormal, mq.LaneCritical, mq.LaneHigh, mq.LaneLow, mq.LaneBackground})
	at := len(w.lanes)
	for range n {
		l := mq.LaneNormal
		if w.laned {
			l = lane.Draw(t, "lane")
		}
		key := ""
		if w.byKey {
			key = rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "key")
		}
		w.lanes, w.keys = append(w.lanes, l), append(w.keys, key)
	}
	all := make([]sent, n)
	for i := range all {
		all[i] = sent{w.lanes[at+i], w.keys[at+i]}
	}
	w.send(all...)
}

// settleAll settles in one call what the oracle then does one by one.
func (w *world) settleAll(hs []held, items []SettleItem) {
	results := w.m.Settle(w.now, items, nil)
	for i, h := range hs {
		w.settled(h, items[i], results[i], i == len(hs)-1)
	}
	w.weigh()
	for _, o := range w.groups {
		o.trim(w.now)
	}
}

func (w *world) settled(h held, it SettleItem, r SettleResult, last bool) {
	o, off, out := w.groups[h.Group], h.Offset, it.Outcome
	s := o.state[off]
	ok := h.Generation == o.generation && (s == StateAcked && out == Ack || s != StateAcked && s != StateDead && !(fence{h.Segment, h.Counter}).less(o.fence[off]))
	if ok != (r.Code == SettleOK) {
		w.t.Fatalf("offset %d is %s at fence %v: receipt %d.%d outcome %d got code %d", off, s, o.fence[off], h.Segment, h.Counter, out, r.Code)
	}
	if ok && (out == Postpone || out == Release) && s != StateLeased {
		// It was taken back already.
	} else if ok && s != StateAcked {
		o.attempt[off] = max(o.attempt[off], 1)
		o.fence[off] = fence{h.Segment, h.Counter}
		switch out {
		case Ack:
			o.state[off] = StateAcked
		case Nack:
			o.fail(w.m, h.Group, off, w.now, it.Delay)
		case Reject:
			o.state[off], o.died[off] = StateDead, w.now
		case Extend:
			o.state[off], o.until[off] = StateLeased, w.now+10*sec
		case Postpone:
			o.attempt[off]--
			wait := max(1, it.Delay)
			if it.Delay < 0 {
				wait = backoff(w.m.groups[h.Group].Settings.Backoff, h.Group, off, o.attempt[off]+1)
			}
			o.state[off], o.until[off] = StateWaiting, w.now+wait
		case Release:
			o.takeBack(off)
		}
		if out == Nack || out == Reject {
			if x := w.m.groups[h.Group].out[off]; last && x != nil && x.reason.String() != it.Reason {
				w.t.Fatalf("offset %d failed because of %q, not %q", off, x.reason, it.Reason)
			}
		}
	}
	if r.State != o.state[off] {
		w.t.Fatalf("offset %d: %s, want %s", off, r.State, o.state[off])
	}
}

// back is what a return does to the oracle: what this hand-over still leases is given back.
func (w *world) back(match func(held) bool) {
	w.gone(match, (*oracle).takeBack)
}

func (o *oracle) takeBack(off uint64) {
	o.state[off] = StateReady
	if o.attempt[off]--; o.attempt[off] == 0 {
		o.neverOut(off)
	}
}

// gone does something to what the hand-overs that match still lease.
func (w *world) gone(match func(held) bool, f func(o *oracle, off uint64)) {
	for _, h := range w.held {
		o := w.groups[h.Group]
		if match(h) && !h.confirmed && o.state[h.Offset] == StateLeased && o.fence[h.Offset] == (fence{h.Segment, h.Counter}) && !w.extended(h) {
			f(o, h.Offset)
		}
	}
}

// extended says whether a lease has left its hand-over: an extended one is not given back.
func (w *world) extended(h held) bool {
	x := w.m.groups[h.Group].out[h.Offset]
	return x == nil || x.grant == nil || !x.grant.unconfirmed
}

func (w *world) compare() {
	if err := w.m.Check(); err != nil {
		w.t.Fatalf("invariants: %v", err)
	}
	for id, o := range w.groups {
		for off := range w.tail.Offset {
			h := w.m.groups[id].held(off)
			want := o.state[off]
			if want == StateDead && (h.First != o.first[off] || h.Last != o.last[off]) {
				w.t.Fatalf("group %d offset %d: %+v, handed out from %d to %d", id, off, h, o.first[off], o.last[off])
			}
			if h.State != want || h.Attempt != o.attempt[off] && want != StateAcked || want == StateLeased && h.Until != o.until[off] {
				w.t.Fatalf("group %d offset %d: %+v, want %s attempt %d until %d", id, off, h, want, o.attempt[off], o.until[off])
			}
		}
	}
}

func (w *world) replays(from *Machine) {
	entries := append(w.entries[:len(w.entries):len(w.entries)], mq.Entry{Segment: 1, Stamp: w.now, At: w.tail, Records: w.m.TakeRecords(nil)})
	m := replay(w.t, from, entries, w.holes...)
	m.Commit(w.tail.Offset)
	got := dump(m, w.now, w.base)
	w.entries, w.tail = entries, entries[len(entries)-1].Next()
	if want := dump(w.m, w.now, w.base); got != want {
		w.t.Fatalf("after replay:\n%s\nthe leader has:\n%s", got, want)
	}
}

func (w *world) steps() map[string]func(*rapid.T) {
	group := func(t *rapid.T) mq.GroupID {
		return mq.GroupID(rapid.IntRange(1, len(w.groups)).Draw(t, "group"))
	}
	settle := func(t *rapid.T) {
		var hs []held
		var items []SettleItem
		outcome := rapid.SampledFrom([]Outcome{Ack, Ack, Nack, Nack, Reject, Extend, Postpone, Release})
		o := outcome.Draw(t, "outcome")
		at := rapid.IntRange(max(0, len(w.held)-20), max(0, len(w.held)-1)).Draw(t, "first")
		for range min(rapid.IntRange(1, 5).Draw(t, "items"), len(w.held)-at) {
			h := w.held[at]
			it := SettleItem{Receipt: h.Receipt, Outcome: o, Delay: rapid.SampledFrom([]int64{-1, 0, 3 * sec, 3 * sec}).Draw(t, "delay"),
				Reason: rapid.SampledFrom([]string{"r", "s"}).Draw(t, "reason")}
			if rapid.IntRange(0, 9).Draw(t, "mixed") == 0 {
				it.Outcome = outcome.Draw(t, "another outcome")
			}
			hs, items = append(hs, h), append(items, it)
			at++
		}
		w.settleAll(hs, items)
	}
	steps := map[string]func(*rapid.T){
		"publish": func(t *rapid.T) { w.publish(t, rapid.IntRange(0, 8).Draw(t, "n")) },
		"group": func(t *rapid.T) {
			if len(w.groups) < 3 {
				w.ensure(mq.GroupID(len(w.groups) + 1))
			}
		},
		"receive": func(t *rapid.T) {
			w.receive(group(t), rapid.IntRange(1, 7).Draw(t, "n"), uint64(rapid.IntRange(1, 2).Draw(t, "stream")))
		},
		"settle": settle, "settle more": settle, "settle again": settle,
		"tick":   func(t *rapid.T) { w.tick(rapid.Int64Range(0, 6*sec).Draw(t, "d")) },
		"replay": func(t *rapid.T) { w.replays(New(part)) },
		"checkpoint": func(t *rapid.T) {
			// As of a moment at which decisions are applied that no entry holds yet: replaying them changes nothing.
			m, asOf, err := LoadCheckpoint(part, w.m.Checkpoint(w.tail, rapid.IntRange(0, 1000).Draw(t, "part bytes")))
			if err != nil || asOf != w.tail {
				t.Fatalf("checkpoint as of %s: %v", asOf, err)
			}
			learn(t, m, w.entries)
			if err := m.Check(); err != nil {
				t.Fatalf("checkpoint: %v", err)
			}
			w.t = t
			settle(t)
			w.receive(group(t), 3, 1)
			w.tick(sec)
			w.replays(m)
		},
		"clean failover": func(t *rapid.T) {
			w.publish(t, 1)
			w.failover()
			w.confirmAll()
			w.tick(0)
		},
		"": func(t *rapid.T) { w.t = t; w.weigh(); w.compare() },
	}
	maps.Copy(steps, w.handOverSteps())
	maps.Copy(steps, w.deadSteps())
	maps.Copy(steps, w.seekSteps())
	return steps
}

// lose makes a range what it is to a group: not there, which looks like settled.
func (o *oracle) lose(h span) {
	for off := h.from; off < h.to; off++ {
		o.state[off] = StateAcked
	}
}

// hole loses a range with the leader: at the end of the journal, where the next messages then go on behind it, or of
// messages that there were.
func (w *world) hole(t *rapid.T) {
	if len(w.holes) == 4 {
		return
	}
	w.publish(t, 1)
	h := span{w.tail.Offset, w.tail.Offset + rapid.Uint64Range(1, 5).Draw(t, "size")}
	if rapid.Bool().Draw(t, "inside") {
		h.from = rapid.Uint64Range(0, h.from-1).Draw(t, "from")
		h.to = rapid.Uint64Range(h.from+1, w.tail.Offset).Draw(t, "to")
	}
	for w.tail.Offset < h.to {
		w.tail = mq.Position{Offset: w.tail.Offset + 1}
		w.lanes, w.keys = append(w.lanes, mq.LaneNormal), append(w.keys, "")
	}
	w.holes = append(w.holes, h)
	w.failover()
	for _, o := range w.groups {
		o.lose(h)
	}
	w.confirmAll()
	w.tick(0)
}

// Random operations with ranges that are lost on the way.
func TestHolesAgainstMaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, t, rapid.Bool().Draw(rt, "lanes"), rapid.Bool().Draw(rt, "keys"))
		steps := w.steps()
		steps["hole"] = w.hole
		rt.Repeat(steps)
	})
}

func (w *world) anyHeld(t *rapid.T) (held, bool) {
	if len(w.held) == 0 {
		return held{}, false
	}
	return w.held[rapid.IntRange(max(0, len(w.held)-15), len(w.held)-1).Draw(t, "receipt")], true
}

func (w *world) handOverSteps() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"return": func(t *rapid.T) {
			if h, ok := w.anyHeld(t); ok {
				w.back(func(x held) bool { return x.stream == h.stream && x.delivery == h.delivery })
				w.m.Return(w.now, h.stream, h.delivery)
			}
		},
		"return one": func(t *rapid.T) {
			if h, ok := w.anyHeld(t); ok {
				w.back(func(x held) bool { return x == h })
				w.m.Return(w.now, h.stream, h.delivery, h.Offset)
			}
		},
		"lapse": func(t *rapid.T) {
			if h, ok := w.anyHeld(t); ok {
				w.gone(func(x held) bool { return x == h }, func(o *oracle, off uint64) { o.state[off] = StateAcked })
				w.m.Lapse(w.now, h.stream, h.delivery, []uint64{h.Offset})
			}
		},
		"confirm": func(t *rapid.T) {
			if h, ok := w.anyHeld(t); ok {
				w.m.Confirm(h.stream, h.delivery)
				for i := range w.held {
					w.held[i].confirmed = w.held[i].confirmed || w.held[i].stream == h.stream && w.held[i].delivery == h.delivery
				}
			}
		},
		"stream gone": func(t *rapid.T) {
			w.back(func(x held) bool { return x.stream == 2 })
			w.m.StreamGone(w.now, 2)
		},
		"roll": func(t *rapid.T) { w.segment++; w.m.Lead(w.segment, w.now) },
	}
}

func (w *world) confirmAll() {
	for i := range w.held {
		w.held[i].confirmed = true
	}
}

// Random operations on a leader against the oracle; the journal replays to the leader's state, from the beginning
// and from a checkpoint taken at any moment.
func TestAgainstMaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, t, false, false)
		rt.Repeat(w.steps())
	})
}
