package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

const (
	ms   = int64(time.Millisecond)
	sec  = int64(time.Second)
	base = int64(1_790_000_000) * sec
)

var part = mq.PartitionID{Topic: 7, Number: 2}

// journal stands for a partition: it holds what the leader's entries would hold, and its leader.
type journal struct {
	t       testing.TB
	m       *Machine
	entries []mq.Entry
	tail    mq.Position
	now     int64
	segment uint64
	holes   []span
	asked   int    // how often keys were asked for
	base    uint64 // what retention has removed is below it
}

type fataler interface{ Fatalf(string, ...any) }

func newJournal(t testing.TB) *journal {
	j := &journal{t: t, m: New(part), now: base, segment: 1}
	j.m.Lead(j.segment, j.now)
	return j
}

func settings() mq.GroupSettings {
	s := mq.DefaultGroupSettings()
	s.Lease = mq.Duration(10 * time.Second)
	s.MaxAttempts = 3
	s.Backoff = mq.Backoff{Initial: mq.Duration(time.Second), Multiplier: 2, Max: mq.Duration(time.Minute)}
	return s
}

func (j *journal) group(id mq.GroupID, change func(*GroupConfig)) {
	j.t.Helper()
	c := GroupConfig{ID: id, Name: fmt.Sprintf("g%d", id), Version: 1, Settings: settings()}
	if change != nil {
		change(&c)
	}
	if err := j.m.EnsureGroup(j.now, c); err != nil {
		j.t.Fatal(err)
	}
}

// cut makes an entry of what the leader has to write and of n messages, and commits it.
func (j *journal) cut(n int) {
	sent := make([]sent, n)
	for i := range sent {
		sent[i].lane = mq.LaneNormal
	}
	j.send(sent...)
}

// publish is cut with messages in these lanes.
func (j *journal) publish(lanes ...mq.Lane) {
	all := make([]sent, len(lanes))
	for i := range all {
		all[i].lane = lanes[i]
	}
	j.send(all...)
}

// keyed is cut with messages of these keys, "" for one without.
func (j *journal) keyed(keys ...string) {
	all := make([]sent, len(keys))
	for i := range all {
		all[i] = sent{mq.LaneNormal, keys[i]}
	}
	j.send(all...)
}

// sent is what matters of a message; no key is none.
type sent struct {
	lane mq.Lane
	key  string
}

func (j *journal) send(all ...sent) {
	e := mq.Entry{Segment: 1, At: j.tail, Stamp: j.now, Records: j.m.TakeRecords(nil), Count: uint32(len(all))}
	at := j.tail.Offset
	for len(all) > 0 {
		var b mq.BatchBuilder
		for _, m := range all[:min(len(all), mq.MaxBatchMessages)] {
			b.Add(&mq.Message{Value: []byte("v"), Lane: m.lane, Key: []byte(m.key), HasKey: m.key != ""})
		}
		body := b.AppendTo(nil, "producer", "gateway", mq.CodecNone, nil)
		e.Records = mq.AppendRecord(e.Records, mq.KindMessages, body)
		all = all[b.Len():]
		order, err := AttributesOf(body, j.m.WantsKeys())
		if err != nil {
			j.t.Fatal(err)
		}
		j.m.Append(at, uint32(b.Len()), order)
		at += uint64(b.Len())
	}
	if len(e.Records) == 0 {
		return
	}
	j.entries = append(j.entries, e)
	j.tail = e.Next()
	j.m.Commit(j.tail.Offset)
}

// learn tells a machine that was loaded from a checkpoint the lanes of what lies before it.
func learn(t fataler, m *Machine, entries []mq.Entry) {
	from, to := m.UnknownLanes()
	if from == to {
		return
	}
	for _, e := range entries {
		if err := EntryLanes(&e, m.LearnLanes); err != nil {
			t.Fatalf("learn: %v", err)
		}
	}
	m.LanesLearnt()
}

func replay(t fataler, m *Machine, entries []mq.Entry, holes ...span) *Machine {
	for _, h := range holes {
		m.Hole(h.from, h.to)
	}
	learn(t, m, entries)
	for i := range entries {
		if entries[i].At.Before(m.Next()) {
			continue
		}
		if err := m.Apply(&entries[i]); err != nil {
			t.Fatalf("replay: %v", err)
		}
	}
	if err := m.Check(); err != nil {
		t.Fatalf("after replay: %v", err)
	}
	return m
}

// failover makes a leader out of the entries; what was not cut is lost.
func (j *journal) failover() {
	j.segment++
	j.m = replay(j.t, New(part), j.entries, j.holes...)
	j.m.Commit(j.tail.Offset)
	j.m.Lead(j.segment, j.now)
	if j.base > 0 {
		j.m.Drop(j.now, j.base)
	}
}

// carry writes again what must not go with the journal before base, in an entry of its own, and answers the offsets.
func (j *journal) carry(base uint64) []uint64 {
	offsets := j.m.MustCarry(mq.Position{Offset: base})
	if len(offsets) == 0 {
		return nil
	}
	var b mq.BatchBuilder
	for _, off := range offsets {
		b.Add(&mq.Message{Value: make([]byte, sizeAt(off)), Lane: mq.LaneNormal})
	}
	c := &CarriedBatch{Stamp: j.now, Leader: "node-1", Quorum: 1, Replicas: []string{"node-1"}, Offsets: offsets,
		Kind: mq.KindMessages, Body: b.AppendTo(nil, "p", "g", mq.CodecNone, nil)}
	e := mq.Entry{Segment: 1, At: j.tail, Stamp: j.now, Records: j.m.TakeRecords(nil)}
	body := c.AppendTo(nil)
	e.Records = mq.AppendRecord(e.Records, mq.KindCarried, body)
	var read CarriedBatch
	if ours, err := read.Read(mq.Record{Kind: mq.KindCarried, Version: 1, Body: body}); !ours || err != nil {
		j.t.Fatalf("the record can't be read: %v", err)
	}
	j.m.Carry(e.At, &read)
	j.entries, j.tail = append(j.entries, e), e.Next()
	return offsets
}

// retain removes what lies below base, as retention does.
func (j *journal) retain(base uint64) []uint64 {
	j.base = max(j.base, base)
	carried := j.carry(j.base)
	j.m.Drop(j.now, j.base)
	return carried
}

func (j *journal) receive(id mq.GroupID, n int, delivery uint64) Grant {
	j.t.Helper()
	return j.ask(j.t, ReceiveRequest{Group: id, Max: n, Consumer: "c", Stream: 1, Delivery: delivery})
}

// ask receives, and tells the machine the keys that it asks for, from the entries.
func (j *journal) ask(t fataler, r ReceiveRequest) Grant {
	for {
		g, err := j.m.Receive(j.now, r)
		if err != nil {
			t.Fatalf("receive: %v", err)
		}
		if g.Why != WhyKeys || len(g.Runs) > 0 {
			return g
		}
		j.tell(t, r.Group, g.Need)
	}
}

// tell tells the machine the keys of the entry that has an offset, from it on.
func (j *journal) tell(t fataler, id mq.GroupID, need uint64) {
	var keys []uint64
	var err error
	for i := range j.entries {
		if e := &j.entries[i]; e.At.Offset <= need && need < e.Next().Offset {
			if keys, err = EntryKeys(e, need, nil); err != nil {
				t.Fatalf("keys: %v", err)
			}
		}
	}
	if len(keys) == 0 {
		t.Fatalf("keys of offset %d are asked for, which is in no entry", need)
	}
	j.asked++
	j.m.LearnKeys(id, need, keys)
}

// teach tells the machine all keys that a group may want to know.
func (j *journal) teach(t fataler, id mq.GroupID) {
	for g := j.m.groups[id]; g.keyed != nil; {
		why, need, _ := j.m.prepare(g, MaxReceive)
		if why != WhyKeys {
			return
		}
		j.tell(t, id, need)
	}
}

func receipts(g Grant) (out []mq.Receipt) {
	for _, r := range g.Runs {
		for i := range uint64(r.Count) {
			out = append(out, mq.Receipt{Partition: part, Offset: r.First + i, Group: g.Group, Generation: g.Generation,
				Segment: g.Segment, Counter: r.Counter + i})
		}
	}
	return out
}

func offsets(g Grant) (out []uint64) {
	for _, r := range receipts(g) {
		out = append(out, r.Offset)
	}
	return out
}

func (j *journal) settle(o Outcome, rs ...mq.Receipt) []SettleResult {
	items := make([]SettleItem, len(rs))
	for i, r := range rs {
		items[i] = SettleItem{Receipt: r, Outcome: o, Delay: -1, Reason: "because"}
	}
	return j.m.Settle(j.now, items, nil)
}

func (j *journal) want(o Outcome, code Code, state State, rs ...mq.Receipt) {
	j.t.Helper()
	for i, r := range j.settle(o, rs...) {
		if r.Code != code || r.State != state {
			j.t.Fatalf("settle of offset %d: code %d, %s; want code %d, %s", rs[i].Offset, r.Code, r.State, code, state)
		}
	}
}

// pass lets time go by and fires the timers that are due on the way.
func (j *journal) pass(d time.Duration) {
	to := j.now + int64(d)
	for {
		timer := j.m.timer
		if timer.ID == 0 || timer.Due > to {
			break
		}
		j.now = max(j.now, timer.Due)
		j.m.Fire(j.now, timer.ID)
	}
	j.now = to
}

func (j *journal) offsets(want []uint64, g Grant) {
	j.t.Helper()
	if got := offsets(g); !slices.Equal(got, want) {
		j.t.Fatalf("got offsets %v, want %v", got, want)
	}
}

// dump is all that must be the same on a leader and after replay: waits that are over are ready. Below base the lanes
// of messages are no longer known to everybody.
func dump(m *Machine, now int64, base ...uint64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "committed %d\n", m.committed)
	fmt.Fprintf(&b, "carried %d bytes:", m.carriedBytes)
	for _, off := range slices.Sorted(maps.Keys(m.carried)) {
		fmt.Fprintf(&b, " %d to %s", off, m.carried[off].at)
	}
	fmt.Fprintln(&b)
	for _, g := range m.sorted() {
		fmt.Fprintf(&b, "group %+v generation %d tally %+v\n", g.GroupConfig, g.generation, g.tally)
		for l := range mq.Lane(mq.Lanes) { // a pointer may stand anywhere before what is fresh
			if first, ok := g.nextFresh(l, 0); ok {
				fmt.Fprintf(&b, "  %s: %d fresh from %d, early %v\n", l, g.left[l], first, g.early[l].spans)
			}
		}
		for _, s := range g.snapshots {
			fmt.Fprintf(&b, "  snapshot %d %s of %d: %v open, %v dead; unsettled", s.id, s.name, s.made, s.position.open, s.position.dead)
			for off := max(s.position.low(), append(base, 0)[0]); off < m.committed; off++ {
				if s.position.unsettled(m.lanes.of(off), off) && !m.lanes.lost(off) {
					fmt.Fprint(&b, " ", off)
				}
			}
			fmt.Fprintln(&b)
		}
		for _, off := range g.offsets(func(uint64, *message) bool { return true }) {
			h := g.held(off)
			if h.State == StateWaiting && h.Until <= now {
				h.State, h.Until = StateReady, 0
			}
			key := uint64(0)
			if h.State == StateLeased { // a leader may have learnt others
				key = g.out[off].key
			}
			fmt.Fprintf(&b, "  %+v fence %v exported %v key %x\n", h, g.out[off].fence, g.out[off].exported, key)
		}
	}
	return b.String()
}
