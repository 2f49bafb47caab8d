package delivery

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// thirds stands for a filter that does not want every third message: the machine never asks what it says.
var thirds = mq.Filter{{Name: "third", Values: []string{"no"}}}

func wanted(off uint64) bool { return off%3 != 0 }

// lookAt tells the machine what thirds wants of a window.
func lookAt(m *Machine, now int64, id mq.GroupID, w Window) {
	var in []Range
	for off := w.From; off < w.To; off++ {
		if wanted(off) {
			in = append(in, Range{off, 1})
		}
	}
	m.Seen(now, id, w, in)
}

// failover makes another leader, whose filters have looked at nothing.
func (w *world) failover() {
	w.journal.failover()
	for _, o := range w.groups {
		o.seen = 0
	}
}

// look lets the filter of a group look as far as it likes, and the oracle settle what is not wanted.
func (w *world) look(id mq.GroupID) {
	o := w.groups[id]
	for range rapid.IntRange(0, 3).Draw(w.t, "looks") {
		win, ok := w.m.Unseen(id)
		if !ok {
			break
		}
		if !o.filters || win.To != w.tail.Offset {
			w.t.Fatalf("group %d has to look at %+v", id, win)
		}
		win.To = rapid.Uint64Range(win.From, win.To).Draw(w.t, "looked up to")
		lookAt(w.m, w.now, id, win)
		for off := win.From; off < win.To; off++ {
			if _, touched := o.state[off]; !touched && !wanted(off) {
				o.state[off] = StateAcked
			}
		}
		o.seen = max(o.seen, win.To)
	}
}

// Museum 33: what a filter does not want is looked at batch-wise and settled with a record for many, at the tail and far
// behind it alike: no lease, no attempt, no state for each.
func TestMuseum33FilteredFarBehindCostsLittle(t *testing.T) {
	j := newJournal(t)
	j.group(1, func(c *GroupConfig) { c.Settings.Filter = thirds })
	const n, window = 1_000_000, 50_000
	for range n / 10_000 {
		j.cut(10_000)
	}
	if g := j.receive(1, 10, 1); g.Why != WhyUnseen || len(g.Runs) > 0 {
		t.Fatalf("before a look: %+v", g)
	}
	rounds, bytes := 0, 0
	for {
		w, ok := j.m.Unseen(1)
		if !ok {
			break
		}
		w.To = min(w.To, w.From+window)
		last := w.To == n
		var in []Range
		if last {
			in = []Range{{n - 1, 1}} // of a million one is wanted
		}
		j.m.Seen(j.now, 1, w, in)
		rounds++
		bytes += j.m.Pending()
		j.cut(0)
		if got, want := j.m.Size(), New(part).Size()+sizeGroup+1000; got > want {
			t.Fatalf("after %d messages the state has %d bytes", w.To, got)
		}
	}
	if rounds != n/window || bytes > 100*rounds {
		t.Errorf("%d rounds, %d bytes of records", rounds, bytes)
	}
	g := j.receive(1, 10, 2)
	j.offsets([]uint64{n - 1}, g)
	j.want(Ack, SettleOK, StateAcked, receipts(g)...)
	if f, _ := j.m.Figures(1); f.Filtered != n-1 || f.Acked != 1 || f.Lag != 0 || f.Ready != 0 {
		t.Errorf("figures: %+v", f)
	}
	j.cut(0)
	j.failover()
	if f, _ := j.m.Figures(1); f.Filtered != n-1 || f.Lag != 0 {
		t.Errorf("figures after a failover: %+v", f)
	}
}

// A look that was overtaken changes nothing.
func TestLooksThatAreOvertaken(t *testing.T) {
	j := newJournal(t)
	set := func(version uint64, f mq.Filter) {
		j.group(1, func(c *GroupConfig) { c.Version, c.Settings.Filter = version, f })
	}
	set(1, thirds)
	j.cut(9)
	w, _ := j.m.Unseen(1)
	set(2, mq.Filter{{Name: "other", Prefix: "x"}})
	lookAt(j.m, j.now, 1, w)
	if f, _ := j.m.Figures(1); f.Filtered != 0 || f.Lag != 9 {
		t.Errorf("a look for the filter before: %+v", f)
	}
	w, _ = j.m.Unseen(1)
	lookAt(j.m, j.now, 1, w)
	lookAt(j.m, j.now, 1, w)
	j.offsets([]uint64{1, 2, 4, 5, 7, 8}, j.receive(1, 9, 1))
	if f, _ := j.m.Figures(1); f.Filtered != 3 {
		t.Errorf("two looks at the same: %+v", f)
	}
	// Without a filter what was not wanted stays settled; what comes is not looked at.
	set(3, nil)
	j.cut(3)
	j.offsets([]uint64{9, 10, 11}, j.receive(1, 9, 2))
}
