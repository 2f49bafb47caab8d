package simulate

import (
	"errors"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// bench is a disk whose syncs end when the test says so.
type bench struct {
	t      *testing.T
	disk   *Disk
	fail   bool
	later  []func()
	answer []error
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, disk: NewDisk("s0")}
	b.disk.start(b.host())
	b.disk.add(func() error {
		b.disk.segments[1] = &Stored{Segment: mq.Segment{ID: 1}}
		b.disk.ids = append(b.disk.ids, 1)
		return nil
	}, func(error) {})
	b.sync()
	return b
}

func (b *bench) host() *Host {
	return &Host{
		Steady: func() int64 { return 0 },
		After:  func(_ time.Duration, f func()) { b.later = append(b.later, f) },
		Sync:   func() (time.Duration, bool) { return 0, !b.fail },
		Fault:  func(err error) { b.t.Error(err) },
	}
}

func (b *bench) sync() {
	for len(b.later) > 0 {
		f := b.later[0]
		b.later = b.later[1:]
		f()
	}
}

// put gives the disk entry k, of one offset.
func (b *bench) put(k uint64) {
	e := mq.Entry{Segment: 1, At: mq.Position{Offset: k}, Count: 1, Records: []byte{byte(k)}}
	if !b.disk.append(1, &e, e.AppendTo(nil), func(err error) { b.answer = append(b.answer, err) }) {
		b.t.Fatal("busy")
	}
}

func (b *bench) tail() uint64 { return b.disk.segments[1].Tail.Offset }

func TestNothingIsDurableOrAnsweredBeforeTheSync(t *testing.T) {
	b := newBench(t)
	b.put(0)
	b.put(1)
	if b.tail() != 0 || len(b.answer) != 0 {
		t.Fatalf("tail %d, answers %v", b.tail(), b.answer)
	}
	b.disk.Crash(1) // the first write reached the disk, and nobody was told
	if b.tail() != 1 || len(b.answer) != 0 {
		t.Fatalf("after the crash: tail %d, answers %v", b.tail(), b.answer)
	}
	b.later = nil
	b.disk.start(b.host())
	b.put(1)
	b.sync()
	if b.tail() != 2 || len(b.answer) != 1 || b.answer[0] != nil {
		t.Fatalf("tail %d, answers %v", b.tail(), b.answer)
	}
}

func TestFailedSyncIsNeverRetried(t *testing.T) {
	b := newBench(t)
	b.fail = true
	b.put(0)
	b.sync()
	b.fail = false
	b.put(1)
	b.sync()
	if b.tail() != 0 || len(b.answer) != 2 || !errors.Is(b.answer[0], errDisk) || !errors.Is(b.answer[1], errDisk) {
		t.Fatalf("tail %d, answers %v", b.tail(), b.answer)
	}
}

func TestLedgerNoticesALostSuffix(t *testing.T) {
	for _, believed := range []bool{false, true} {
		b := newBench(t)
		b.put(0)
		b.put(1)
		b.sync()
		b.disk.Crash(0)
		b.disk.segments[1].LoseSuffix()
		h := b.host()
		h.Mutation.IgnoreUnknown = believed
		b.disk.start(h)
		if s := b.disk.segments[1]; s.Damaged == believed || s.Tail.Offset != 1 {
			t.Fatalf("believed %v: %+v", believed, s)
		}
	}
}

func TestFlippedBitIsMetByAReader(t *testing.T) {
	b := newBench(t)
	b.put(0)
	b.put(1)
	b.sync()
	b.disk.segments[1].Flip(0, 3)
	n := 0
	err := b.disk.scan(1, mq.Position{}, func(*mq.Entry, []byte) bool { n++; return true })
	if !errors.Is(err, mq.ErrCorrupt) || n != 1 || !b.disk.segments[1].Damaged {
		t.Fatalf("%d entries, %v", n, err)
	}
}

func TestCutIsAtTheEnd(t *testing.T) {
	b := newBench(t)
	for k := range uint64(3) {
		b.put(k)
	}
	b.sync()
	s := b.disk.segments[1]
	s.cut(mq.Position{Offset: 1})
	if len(s.Entries) != 1 || s.Tail.Offset != 1 || s.Last.Offset != 0 {
		t.Fatalf("%+v", s)
	}
	b.disk.Crash(0)
	if b.disk.start(b.host()); s.Damaged {
		t.Fatal("what a decided end excludes is no damage")
	}
}
