package delivery

import (
	"testing"
	"time"
)

// After a failover leases count from the journal's last entry: who holds one does not lose it to a long start, or to the new
// leader's clock (museum 7).
func TestLeasesCountFromTheJournalsLastStamp(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(2)
	g := j.receive(1, 2, 1) // for 10 s
	j.cut(0)
	last := j.now
	j.now += 3600 * sec // the cluster was down for an hour
	m := replay(t, New(part), j.entries)
	m.Resume(j.now, last)
	m.Lead(2, j.now)
	j.m = m
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	fire := func(at int64) (expired int) {
		for m.timer.ID != 0 && m.timer.Due <= at {
			m.Fire(at, m.timer.ID)
		}
		f, _ := m.Figures(1)
		return 2 - f.Leased
	}
	if n := fire(j.now + 9*sec); n != 0 {
		t.Fatalf("%d of two leases ran out after 9 of 10 seconds", n)
	}
	j.want(Ack, SettleOK, StateAcked, receipts(g)[0])
	if n := fire(j.now + 10*sec); n != 2 { // one is acked, the other one's lease is over
		t.Fatalf("after 10 seconds the lease goes on")
	}
}

// When the leader's clock is set, leases, extended ones too, and waits end when they would have: nobody loses or gets the difference.
func TestMoveKeepsWhatIsLeftOfLeasesAndWaits(t *testing.T) {
	for _, by := range []int64{3600 * sec, -3600 * sec} {
		j := newJournal(t)
		j.group(1, nil)
		j.cut(3)
		g := j.receive(1, 3, 1) // for 10 s
		j.cut(0)
		r := receipts(g)
		m := j.m
		m.Settle(j.now, []SettleItem{{Receipt: r[1], Outcome: Nack, Delay: 5 * sec}, {Receipt: r[2], Outcome: Extend, Lease: 20 * sec}}, nil)
		j.now += by
		m.Move(by)
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			after         int64
			leased, again int
		}{{5*sec - 1, 2, 0}, {5 * sec, 2, 1}, {10*sec - 1, 2, 1}, {10 * sec, 1, 1}, {20*sec - 1, 1, 2}, {20 * sec, 0, 2}} {
			for m.timer.ID != 0 && m.timer.Due <= j.now+c.after {
				m.Fire(j.now+c.after, m.timer.ID)
			}
			f, _ := m.Figures(1)
			if f.Leased != c.leased || f.Again < c.again {
				t.Errorf("%d ns after the clock was set by %d: %d leased, %d ready again, want %d and %d", c.after, by, f.Leased, f.Again, c.leased, c.again)
			}
		}
	}
}

// The new leader's clock and the old one's may be an hour apart, and stamps may stand still because an earlier clock was wrong:
// what was left of a lease is left, and a wait is over when it would have been, or at once.
func TestResumeByAnotherClock(t *testing.T) {
	for _, c := range []struct {
		name          string
		stamps, clock int64 // of the old leader's entries, and its clock, beside the new leader's
		checkpoint    bool
	}{
		{"the same clock", 0, 0, false},
		{"the old clock was ahead", 3600 * sec, 3600 * sec, false},
		{"the old clock was ahead, from a checkpoint", 3600 * sec, 3600 * sec, true},
		{"an older clock was ahead", 3600 * sec, 0, false},
		{"an older clock was ahead, from a checkpoint", 3600 * sec, 0, true},
		{"the old clock was behind", 0, -3600 * sec, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newJournal(t)
			real := j.now
			j.now += c.clock
			j.group(1, nil)
			j.cut(3)
			g := j.receive(1, 2, 1) // for 10 s
			j.m.Settle(j.now, []SettleItem{{Receipt: receipts(g)[1], Outcome: Nack, Delay: 8 * sec}}, nil)
			j.cut(0)
			m, entries := New(part), j.entries
			if c.checkpoint {
				j.now += 2 * sec
				j.m.At(j.now)
				var err error
				if m, _, err = LoadCheckpoint(part, j.m.Checkpoint(j.tail, PartBytes)); err != nil {
					t.Fatal(err)
				}
				entries = entries[len(entries):]
			}
			passed := j.now - real - c.clock
			stamp := real + c.stamps + passed
			if c.stamps != c.clock { // they stand still
				stamp = real + c.stamps
			}
			for i := range entries {
				entries[i].Stamp = stamp
			}
			replay(t, m, entries)
			now := real + passed
			m.Resume(now, stamp)
			m.Lead(2, now)
			if err := m.Check(); err != nil {
				t.Fatal(err)
			}
			fire := func(at int64) GroupFigures {
				for m.timer.ID != 0 && m.timer.Due <= at {
					m.Fire(at, m.timer.ID)
				}
				f, _ := m.Figures(1)
				return f
			}
			left := 10*sec - passed
			if f := fire(now + left - 1); f.Leased != 1 || f.Again != 1 {
				t.Errorf("before the end of the lease: %+v", f)
			}
			if f := fire(now + left); f.Leased != 0 {
				t.Errorf("after the end of the lease: %+v", f)
			}
		})
	}
}

// A leader whose clock is an hour off decides something and is gone before it has a checkpoint, or its clock was set back
// meanwhile: leases that it found do not last an hour longer for the next one.
func TestReplayOverAnotherClock(t *testing.T) {
	for _, c := range []struct {
		off int64
		set bool
	}{{-3600 * sec, false}, {3600 * sec, false}, {-3600 * sec, true}} {
		off := c.off
		j := newJournal(t)
		real := j.now
		j.group(1, nil)
		j.cut(4)
		j.receive(1, 2, 1) // for 10 s
		j.cut(0)
		j.now += off
		b := j.receive(1, 1, 1)
		j.m.Settle(j.now, []SettleItem{{Receipt: receipts(b)[0], Outcome: Nack, Delay: 5 * sec}}, nil)
		j.cut(0)
		last := &j.entries[len(j.entries)-1]
		if !c.set {
			last.Segment++
		}
		if last.Stamp = real; off > 0 { // else stamps stand still
			last.Stamp = j.now
		}
		m := replay(t, New(part), j.entries)
		m.Resume(real, last.Stamp)
		m.Lead(3, real)
		for m.timer.ID != 0 && m.timer.Due <= real+10*sec {
			m.Fire(real+10*sec, m.timer.ID)
		}
		if f, _ := m.Figures(1); f.Leased != 0 || f.Again != 3 && f.Again+f.Waiting != 3 || f.Waiting > 2 {
			t.Errorf("ten seconds later, with %+v: %+v", c, f)
		}
	}
}

// Records wait for long where a disk hangs. A checkpoint that is made then knows their decisions, and they follow behind it: they
// are earlier than it, and no clock was set back.
func TestCheckpointAheadOfRecordsThatWait(t *testing.T) {
	j := newJournal(t)
	j.group(1, nil)
	j.cut(3)
	r := receipts(j.receive(1, 2, 1)) // for 10 s
	j.cut(0)
	j.want(Ack, SettleOK, StateAcked, r[0])
	j.pass(6 * time.Second)
	j.receive(1, 1, 2)
	m, _, err := LoadCheckpoint(part, j.m.Checkpoint(j.tail, PartBytes))
	if err != nil {
		t.Fatal(err)
	}
	j.cut(1)
	same(t, j, m)
	j.pass(time.Second)
	j.receive(1, 1, 3)
	j.cut(0)
	same(t, j, m)
}
