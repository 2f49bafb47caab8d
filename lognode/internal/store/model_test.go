package store

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// model is what a store must answer, kept in the plainest way.
type model struct {
	t     *testing.T
	rng   *rand.Rand
	cfg   Config
	s     *Store
	segs  map[mq.SegmentID]*modelSegment
	steps int
}

type modelSegment struct {
	*journal
	sealed bool
	end    *mq.Position
}

// TestAgainstAModel does random steps with small volumes, restarts and crashes, and compares everything
// after each of the latter.
func TestAgainstAModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 77)), cfg: testConfig(t.TempDir()), segs: map[mq.SegmentID]*modelSegment{}}
		m.cfg.VolumeBytes = 40 << 10
		m.cfg.MaxOpenVolumes = 2
		m.s = mustOpen(t, m.cfg)
		for range 150 {
			m.step()
		}
		m.check()
		mustClose(t, m.s)
	}
}

func (m *model) pick() (mq.SegmentID, *modelSegment) {
	id := mq.SegmentID(1 + m.rng.IntN(6))
	return id, m.segs[id]
}

func (m *model) step() {
	t := m.t
	id, g := m.pick()
	m.steps++
	switch r := m.rng.IntN(100); {
	case g == nil:
		mustCreate(t, m.s, id)
		m.segs[id] = &modelSegment{journal: newJournal(id)}
	case r < 50:
		m.append(g)
	case r < 55:
		if err := m.s.SealSegments([]mq.SegmentID{id}); err != nil {
			t.Fatal(err)
		}
		g.sealed = true
	case r < 65:
		m.setEnd(g)
	case r < 75:
		if err := m.s.RemoveSegments([]mq.SegmentID{id}); err != nil {
			t.Fatal(err)
		}
		delete(m.segs, id)
	case r < 90:
		mustReclaim(t, m.s)
	case r < 95:
		mustClose(t, m.s)
		m.s = mustOpen(t, m.cfg)
		m.check()
	default:
		mustReclaim(t, m.s) // the janitor rests during the copy: a real crash stops it at one moment
		crashed := crashCopy(t, m.cfg)
		mustClose(t, m.s)
		m.cfg = crashed
		m.s = mustOpen(t, m.cfg)
		m.check()
	}
}

func (m *model) append(g *modelSegment) {
	next := *g.journal
	var appends []Append
	for range 1 + m.rng.IntN(20) {
		appends = append(appends, next.next(uint32(m.rng.IntN(3)), m.rng.IntN(1500)))
	}
	errs, err := appendAll(m.s, appends...)
	if err != nil {
		m.t.Fatal(err)
	}
	took := len(g.entries)
	for i, err := range errs {
		want := error(nil)
		if g.end != nil && g.end.Before(appends[i].Next) || g.end == nil && g.sealed {
			want = ErrSealed
		}
		if !errors.Is(err, want) {
			m.t.Fatalf("append at %s of a segment with seal %v end %v: %v", appends[i].At, g.sealed, g.end, err)
		}
		if err == nil {
			took++
		}
	}
	g.keep(&next, took)
}

// keep makes the journal end after n of the entries of from.
func (g *modelSegment) keep(from *journal, n int) {
	g.journal = &journal{id: g.id, stamp: from.stamp, entries: from.entries[:n:n], data: from.data[:n:n]}
	if n > 0 {
		g.at, g.prev = g.entries[n-1].Next(), g.entries[n-1].At
	}
}

func (m *model) setEnd(g *modelSegment) {
	n := m.rng.IntN(len(g.entries) + 1)
	end := g.at
	if n < len(g.entries) && m.rng.IntN(2) == 0 {
		end = g.entries[n].At
	}
	if m.rng.IntN(4) == 0 {
		end.Offset += 10
		end.Seq = 0
	}
	err := m.s.SetEnd(g.id, end)
	within := false
	for i := range g.entries {
		within = within || g.entries[i].At.Before(end) && end.Before(g.entries[i].Next())
	}
	switch {
	case g.end != nil && *g.end == end:
		if err != nil {
			m.t.Fatal(err)
		}
		return
	case g.end != nil, within:
		if !errors.Is(err, ErrConflict) {
			m.t.Fatalf("end %s after %v: %v", end, g.end, err)
		}
		return
	case err != nil:
		m.t.Fatal(err)
	}
	g.sealed, g.end = true, &end
	kept := 0
	for kept < len(g.entries) && g.entries[kept].At.Before(end) {
		kept++
	}
	g.keep(g.journal, kept)
}

func (m *model) check() {
	t := m.t
	if got := len(m.s.Segments()); got != len(m.segs) {
		t.Fatalf("%d segments, want %d", got, len(m.segs))
	}
	for id, g := range m.segs {
		g.mustHold(t, m.s, len(g.entries))
		info, _ := m.s.Segment(id)
		if info.SealFlag != g.sealed || (info.End == nil) != (g.end == nil) || g.end != nil && *info.End != *g.end {
			t.Fatalf("segment %d: %+v, want seal %v end %v", id, info, g.sealed, g.end)
		}
		if err := m.s.Verify(id); err != nil {
			t.Fatal(err)
		}
	}
	m.s.mu.RLock()
	defer m.s.mu.RUnlock()
	parts, live := map[*volume]int{}, map[*volume]int64{}
	for _, g := range m.s.segments {
		for _, p := range g.parts {
			parts[p.vol]++
			live[p.vol] += p.bytes
		}
	}
	for _, v := range m.s.volumes {
		if v.parts != parts[v] || v.live != live[v] {
			t.Fatalf("volume %d: %d parts %d bytes live, it says %d and %d", v.number, parts[v], live[v], v.parts, v.live)
		}
	}
}
