package delivery

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// The same with messages in all lanes: within a lane by offset, and as many as the lanes' shares let out.
func TestLanesAgainstMaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, t, true, false)
		rt.Repeat(w.steps())
	})
}

// The same with keys, in groups that order by them: one message of a key at a time, in the order of their offsets.
func TestKeysAgainstMaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, t, false, true)
		rt.Repeat(w.steps())
	})
}

// And with both: order by key holds across lanes.
func TestLanesAndKeysAgainstMaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, t, true, true)
		rt.Repeat(w.steps())
	})
}

func byKey(c *GroupConfig) {
	c.Settings.Ordering, c.Settings.MaxInFlight = mq.OrderingKey, mq.MaxInFlightCap
}

// Museum 24: a key stalls for ever when a consumer leaves, one message fails or the leader dies. Whatever frees a key
// wakes the group and gives its next message.
func TestMuseum24NoKeyStalls(t *testing.T) {
	free := map[string]func(j *journal, r mq.Receipt){
		"acked":         func(j *journal, r mq.Receipt) { j.settle(Ack, r) },
		"released":      func(j *journal, r mq.Receipt) { j.settle(Release, r) },
		"rejected":      func(j *journal, r mq.Receipt) { j.settle(Reject, r) },
		"consumer gone": func(j *journal, r mq.Receipt) { j.m.StreamGone(j.now, 1) },
		"failed":        func(j *journal, r mq.Receipt) { j.settle(Nack, r); j.pass(time.Second) },
		"lease ran out": func(j *journal, r mq.Receipt) { j.pass(12 * time.Second) },
		"leader died": func(j *journal, r mq.Receipt) {
			j.cut(0)
			j.failover()
			j.settle(Ack, r)
		},
	}
	for what, act := range free {
		j := newJournal(t)
		j.group(1, byKey)
		j.keyed("a", "a", "a")
		g := j.receive(1, 9, 1)
		j.offsets([]uint64{0}, g)
		j.m.TakeReady(func(mq.GroupID) { t.Fatalf("%s: woken while the key is out", what) })
		act(j, receipts(g)[0])
		woken := false
		j.m.TakeReady(func(mq.GroupID) { woken = true })
		got := offsets(j.receive(1, 9, 2))
		if !woken || len(got) != 1 || got[0] > 1 {
			t.Errorf("%s: woken %v, then %v", what, woken, got)
		}
	}
}

// What was handed out before and waits behind a redriven message of its key is parked, too: what is not settled is ready,
// parked, leased or waiting, and nothing else.
func TestParkedCountsWhatWasHandedOutBefore(t *testing.T) {
	j := newJournal(t)
	j.group(1, byKey)
	j.keyed("a", "a", "a", "b")
	j.settle(Reject, receipts(j.receive(1, 1, 1))...)
	j.settle(Nack, receipts(j.receive(1, 1, 2))...) // offset 1
	j.pass(time.Second)
	if n, err := j.m.Redrive(j.now, 1, []uint64{0}, 0, 0); n != 1 || err != nil {
		t.Fatalf("redriven %d, %v", n, err)
	}
	f, _ := j.m.Figures(1)
	if f.Lag != 4 || f.Ready != 2 || f.Parked != 2 || len(j.m.Held(1, StateParked, 0, 10)) != 2 {
		t.Errorf("%+v, want 0 and 3 ready and two parked", f)
	}
}

// Museum 33 for keys: behind a stuck key of ten thousand messages others flow, each message is looked at once, and at the
// bound the look stops instead of growing.
func TestMuseum33ParkedAreLookedAtOnce(t *testing.T) {
	j := newJournal(t)
	j.group(1, byKey)
	keys := make([]string, 10_000)
	for round := range 3 {
		for i := range keys {
			if keys[i] = "stuck"; i%2 == 0 {
				keys[i] = fmt.Sprint(round, i)
			}
		}
		j.keyed(keys...)
	}
	stuck := uint64(1)
	handed := 0
	var last mq.Receipt
	for i := range uint64(400) {
		g := j.receive(1, 100, i)
		for _, r := range receipts(g) {
			if handed++; r.Offset == stuck {
				last = r
				continue
			}
			j.settle(Ack, r)
		}
	}
	k := j.m.groups[1].keyed
	f, _ := j.m.Figures(1)
	if f.Parked != MaxParked || handed < MaxParked || handed > 15_000 || j.asked != 0 {
		t.Fatalf("%d parked, %d handed out, keys asked for %d times", f.Parked, handed, j.asked)
	}
	if spans := j.m.spans; spans > MaxParked+1 {
		t.Fatalf("%d spans", spans)
	}
	if _, needs := j.m.look(j.m.groups[1], 10); needs || k.scan == j.tail.Offset {
		t.Fatalf("looked up to %d of %d", k.scan, j.tail.Offset)
	}
	if behind, ok := j.m.Behind(1, 3); !ok || behind != stuck {
		t.Fatalf("offset 3 waits for %d, %v", behind, ok)
	}
	j.settle(Ack, last)
	j.offsets([]uint64{3}, j.receive(1, 1, 1000))
	if err := j.m.Check(); err != nil {
		t.Fatal(err)
	}
}

// The fences of a key only grow, over lanes, failovers and rolls.
func TestFenceGrowsForAKey(t *testing.T) {
	j := newJournal(t)
	j.group(1, byKey)
	var all []sent
	for i := range 50 {
		all = append(all, sent{mq.Lane(i % mq.Lanes), []string{"a", "b"}[i%2]})
	}
	j.send(all...)
	last := map[string]fence{}
	for i := range uint64(200) {
		g := j.receive(1, 3, i)
		for _, r := range receipts(g) {
			f, key := fence{r.Segment, r.Counter}, all[r.Offset].key
			if !last[key].less(f) {
				t.Fatalf("key %s: fence %v after %v", key, f, last[key])
			}
			last[key] = f
			j.settle([]Outcome{Ack, Nack, Ack}[i%3], r)
		}
		j.pass(time.Second)
		switch i % 20 {
		case 7:
			j.cut(0)
			j.failover()
		case 13:
			j.segment++
			j.m.Lead(j.segment, j.now)
		}
	}
	if len(last) != 2 {
		t.Fatalf("%v", last)
	}
}

// A group that begins to order by key while messages are out hands out nothing until their keys are known.
func TestOrderingIsSwitched(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.keyed("a", "b", "a", "c", "a")
	r := receipts(j.receive(1, 3, 1)) // a, b, a
	j.group(1, func(c *GroupConfig) { c.Version, c.Settings.Ordering = 2, mq.OrderingKey })
	if g, err := j.m.Receive(j.now, ReceiveRequest{Group: 1, Max: 9}); err != nil || g.Why != WhyKeys || g.Need != 0 {
		t.Fatalf("%+v %v", g, err)
	}
	j.offsets([]uint64{3}, j.receive(1, 9, 2)) // two of a are out
	j.settle(Ack, r[0])
	j.offsets(nil, j.receive(1, 9, 3))
	j.settle(Ack, r[2])
	j.offsets([]uint64{4}, j.receive(1, 9, 4))
	j.m.StreamGone(j.now, 1)
	j.group(1, func(c *GroupConfig) { c.Version = 3 })
	j.offsets([]uint64{1, 3, 4}, j.receive(1, 9, 5))
	if err := j.m.Check(); err != nil {
		t.Fatal(err)
	}
}
