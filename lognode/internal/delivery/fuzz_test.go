package delivery

import (
	"bytes"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// seedJournal has every kind of record, with its leader.
func seedJournal(t testing.TB) *journal {
	j := newJournal(t)
	j.group(1, nil)
	j.group(2, func(c *GroupConfig) { c.Settings.Start = mq.Start{At: "time", Time: time.Unix(1e9, 5)} })
	j.cut(20)
	r := receipts(j.receive(1, 12, 1))
	j.receive(2, 3, 2)
	j.cut(0)
	j.settle(Ack, r[0], r[1], r[5])
	j.settle(Nack, r[2])
	j.settle(Reject, r[3])
	j.settle(Extend, r[4])
	j.m.StreamGone(j.now, 1)
	j.cut(1)
	j.pass(20 * time.Second)
	j.m.Drop(j.now, 2)
	j.receive(1, 9, 4)
	j.cut(0)
	g := receipts(j.receive(2, 2, 5))
	j.settle(Reject, g...)
	for i, act := range []func([]uint64) (int, error){
		func(o []uint64) (int, error) { return j.m.Redrive(j.now, 2, o, sec, sec) },
		func(o []uint64) (int, error) { return j.m.RemoveDead(j.now, 2, o) },
	} {
		if n, err := act([]uint64{g[i].Offset}); n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if err := j.m.CreateSnapshot(j.now, 1, "before"); err != nil {
		t.Fatal(err)
	}
	for _, to := range []SeekTarget{{Offset: 9}, {Snapshot: "before"}} {
		if _, err := j.m.SeekGroup(j.now, 1, to); err != nil {
			t.Fatal(err)
		}
	}
	j.receive(1, 4, 6)
	j.cut(0)
	return j
}

// Whatever bytes stand in an entry: no panic, and the invariants hold.
func FuzzApply(f *testing.F) {
	for _, e := range seedJournal(f).entries {
		f.Add(e.Records, uint64(20), uint32(0))
	}
	f.Fuzz(func(t *testing.T, records []byte, at uint64, count uint32) {
		j := seedJournal(t)
		m := replay(t, New(part), j.entries)
		// Grants of 10,000 messages each are allowed; the fuzzer need not make millions of them.
		e := mq.Entry{At: mq.Position{Offset: m.Next().Offset + at%200, Seq: 99}, Count: count, Records: records}
		before := dump(m, base)
		if err := m.Apply(&e); err != nil {
			if got := dump(m, base); got != before {
				t.Fatalf("%v, but the state has changed:\n%s\nfrom:\n%s", err, got, before)
			}
			return
		}
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		_ = TraceEntry(&e, at, func(Event) {})
		m.Lead(9, base)
		for id := range m.groups {
			if _, err := m.Receive(base, ReceiveRequest{Group: id, Max: 10}); err != nil {
				t.Fatal(err)
			}
			m.Figures(id)
		}
		m.StreamGone(base, 0)
		m.Fire(base, m.timer.ID)
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzTrace(f *testing.F) {
	for _, e := range seedJournal(f).entries {
		f.Add(e.Records, e.At.Offset, uint64(4))
	}
	f.Fuzz(func(t *testing.T, records []byte, at, offset uint64) {
		_ = TraceEntry(&mq.Entry{At: mq.Position{Offset: at}, Records: records}, offset, func(e Event) {
			if e.Type == "" {
				t.Fatal("an event without a type")
			}
		})
	})
}

// The records that can be read are written back as they were read.
func FuzzRecords(f *testing.F) {
	for _, e := range seedJournal(f).entries {
		for rest := e.Records; len(rest) > 0; {
			rec, next, _ := mq.NextRecord(rest)
			f.Add(uint8(rec.Kind), rec.Body)
			rest = next
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		var first, second []byte
		switch mq.Kind(kind) {
		case mq.KindDelivered:
			var d, again delivered
			if d.read(body) != nil {
				return
			}
			first = d.append(nil)
			if err := again.read(first); err != nil {
				t.Fatal(err)
			}
			second = again.append(nil)
		case mq.KindSettled:
			var s, again settled
			if s.read(body) != nil {
				return
			}
			first = s.append(nil)
			if err := again.read(first); err != nil {
				t.Fatal(err)
			}
			second = again.append(nil)
		case mq.KindSnapshot:
			var c, again snapshotChange
			if c.read(body) != nil {
				return
			}
			first = c.append(nil)
			if err := again.read(first); err != nil {
				t.Fatal(err)
			}
			second = again.append(nil)
		case mq.KindGroup:
			var c, again groupChange
			if c.read(body) != nil {
				return
			}
			first = c.append(nil)
			if err := again.read(first); err != nil {
				t.Fatal(err)
			}
			second = again.append(nil)
		}
		if !bytes.Equal(first, second) {
			t.Fatalf("written %x, then %x", first, second)
		}
	})
}

// Any stream in a checkpoint: no panic, and what loads holds the invariants and is written as it was loaded.
func FuzzCheckpoint(f *testing.F) {
	j := seedJournal(f)
	f.Add(appendBeside(j.m.appendState(nil), []Beside{{SectionSchedules, []byte("x")}}))
	f.Add(appendBeside(New(part).appendState(nil), nil))
	for _, p := range j.m.Checkpoint(j.tail, 300) {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		_, _ = ParseCheckpointHeader(stream)
		_, _, _ = LoadCheckpoint(part, [][]byte{stream})
		m := New(part)
		r := mq.NewReader(stream)
		m.readState(r)
		if m.readBeside(r) != nil {
			return
		}
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		again, _, err := LoadCheckpoint(part, m.Checkpoint(mq.Position{}, PartBytes))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := dump(again, base), dump(m, base); got != want {
			t.Fatalf("got:\n%s\nwant:\n%s", got, want)
		}
	})
}
