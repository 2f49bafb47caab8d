package delivery

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// With crashes that lose what was written behind, the oracle can't know each state, but nothing acked comes back, fences
// grow, invariants hold, and the journal replays.
type lossy struct {
	*journal
	acked    map[uint64]bool // by a settle that has committed
	fences   map[uint64]fence
	all      []mq.Receipt
	pending  []uint64 // acked, not committed
	delivery uint64
}

func TestLossyFailovers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := &lossy{journal: newJournal(t), acked: map[uint64]bool{}, fences: map[uint64]fence{}}
		l.group(1, func(c *GroupConfig) { c.Settings.MaxInFlight = 10 })
		l.cut(30)
		rt.Repeat(map[string]func(*rapid.T){
			"receive": l.take,
			"settle": func(t *rapid.T) {
				if len(l.all) == 0 {
					return
				}
				r := rapid.SampledFrom(l.all).Draw(t, "receipt")
				o := rapid.SampledFrom([]Outcome{Ack, Nack, Extend}).Draw(t, "outcome")
				if res := l.settle(o, r)[0]; o == Ack && res.Code == SettleOK {
					l.pending = append(l.pending, r.Offset)
				}
			},
			"commit": func(t *rapid.T) {
				l.cut(rapid.IntRange(0, 3).Draw(t, "n"))
				for _, off := range l.pending {
					l.acked[off] = true
				}
				l.pending = nil
			},
			"crash":  func(t *rapid.T) { l.failover(); l.pending = nil },
			"tick":   func(t *rapid.T) { l.pass(time.Duration(rapid.Int64Range(0, 12*sec).Draw(t, "d"))) },
			"drop":   func(t *rapid.T) { l.m.Drop(l.now, uint64(rapid.IntRange(0, 12).Draw(t, "base"))) },
			"return": func(t *rapid.T) { l.m.StreamGone(l.now, 1) },
			"":       l.look,
		})
	})
}

func (l *lossy) take(t *rapid.T) {
	l.delivery++
	g := l.receive(1, rapid.IntRange(1, 5).Draw(t, "n"), l.delivery)
	for _, r := range receipts(g) {
		f := fence{r.Segment, r.Counter}
		if l.acked[r.Offset] || !l.fences[r.Offset].less(f) {
			t.Fatalf("offset %d handed out at %v after %v, acked %v", r.Offset, f, l.fences[r.Offset], l.acked[r.Offset])
		}
		l.fences[r.Offset] = f
		l.all = append(l.all, r)
	}
	if g.MustCommit {
		l.cut(0)
	}
}

func (l *lossy) look(t *rapid.T) {
	if err := l.m.Check(); err != nil {
		t.Fatalf("invariants: %v", err)
	}
	for off := range l.acked {
		if s := l.m.groups[1].held(off).State; s != StateAcked {
			t.Fatalf("offset %d was acked and is %s", off, s)
		}
	}
	entries := append(l.entries[:len(l.entries):len(l.entries)], mq.Entry{Segment: 1, Stamp: l.now, At: l.tail, Records: append([]byte(nil), l.m.records...)})
	if got, want := dump(replay(t, New(part), entries), l.now), dump(l.m, l.now); got != want {
		t.Fatalf("after replay:\n%s\nthe leader has:\n%s", got, want)
	}
}
