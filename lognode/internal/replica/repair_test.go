package replica

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// donor is a node that answers ReadSegment from its store.
type donor struct {
	mqpb.LogNodeClient
	alone
	store *store.Store
}

// Probe says that it has the segment up to its own tail.
func (d donor) Probe(_ context.Context, req *mqpb.ProbeRequest, _ ...grpc.CallOption) (*mqpb.ProbeResponse, error) {
	info, ok := d.store.Segment(mq.SegmentID(req.Segments[0]))
	return &mqpb.ProbeResponse{Node: mqpb.FromIncarnation(d.store.Identity()), Segments: []*mqpb.SegmentState{{Segment: req.Segments[0],
		Known: ok && !info.Damaged, Tail: mqpb.FromPosition(info.Tail), Entries: info.Count, Sum: info.Sum}}}, nil
}

func (d donor) Client(mq.StoreID) (mqpb.LogNodeClient, error) { return d, nil }

func (d donor) ReadSegment(_ context.Context, req *mqpb.ReadSegmentRequest, _ ...grpc.CallOption) (*mqpb.ReadSegmentResponse, error) {
	res := &mqpb.ReadSegmentResponse{Known: true}
	size := 0
	err := d.store.Scan(mq.SegmentID(req.Segment), req.From.MQ(), func(_ mq.Position, data []byte) bool {
		res.Entries = append(res.Entries, bytes.Clone(data))
		size += len(data)
		return size < 2000 // small pieces, so that several are needed
	})
	if len(res.Entries) > 0 {
		err = nil // what is before the damage
	}
	return res, err
}

func openStore(t *testing.T) *store.Store { return openStoreIn(t, t.TempDir()) }

func openStoreIn(t *testing.T, dir string) *store.Store {
	t.Helper()
	cfg := store.DefaultConfig(dir)
	cfg.BallastBytes, cfg.LedgerEvery = 0, 1<<40 // the ledger vouches for what a start found, and nothing that came since
	s, err := store.Open(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fill writes entries of one message each and returns them encoded.
func fill(t *testing.T, s *store.Store, seg *mq.Segment, entries int) (raw [][]byte, end mq.Position) {
	t.Helper()
	return fillWith(t, s, seg, entries, func(i int) string { return fmt.Sprint("message ", i) })
}

// fillWith is fill with these messages.
func fillWith(t *testing.T, s *store.Store, seg *mq.Segment, entries int, value func(int) string) (raw [][]byte, end mq.Position) {
	t.Helper()
	l, err := segment.NewLeader(*seg, seg.Base, 0)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, entries)
	for i := range entries {
		body, _ := batchOf(value(i))
		e := mq.Entry{Count: 1, Records: mq.AppendRecord(nil, mq.KindMessages, body)}
		if err := l.Place(&e, int64(i+1)); err != nil {
			t.Fatal(err)
		}
		data := e.AppendTo(nil)
		raw = append(raw, data)
		if err := s.Append(store.Append{Segment: seg.ID, At: e.At, Next: e.Next(), Data: data, Done: func(err error) { done <- err }}); err != nil {
			t.Fatal(err)
		}
	}
	for range entries {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	return raw, l.Next()
}

// holder is a partition that has taken up what its store holds.
func holder(t *testing.T, here *store.Store, peers Peers) *Partition {
	t.Helper()
	clock := knownClock()
	env := &Env{Log: slog.New(slog.DiscardHandler), Store: here, Peers: peers, Clock: clock, Timers: NewTimers(clock), Cache: &EntryCache{},
		Opening: func(mq.SegmentID, bool) {}, Late: func(mq.SegmentID, []mq.StoreID) {}, Metrics: NewMetrics(prometheus.NewRegistry()), Readers: make(chan struct{}, 8)}
	p := New(env, testPartition)
	t.Cleanup(func() {
		p.Close()
		env.Timers.Close()
	})
	for _, info := range here.Segments() {
		p.Adopt(info)
	}
	return p
}

func TestRepairMakesCopiesWhole(t *testing.T) {
	t.Parallel()
	for _, had := range []struct {
		name    string
		entries int // that the copy has before; -1: there is no copy
	}{{"a copy that is behind", 7}, {"an empty copy", 0}, {"no copy", -1}, {"a whole copy", 40}} {
		t.Run(had.name, func(t *testing.T) {
			from, here := openStore(t), openStore(t)
			seg := mq.Segment{ID: 5, Partition: testPartition, Number: 1, Quorum: 2, Leader: from.Identity(), Compared: 1,
				Replicas: []mq.Replica{{Store: from.Identity().Store}, {Store: here.Identity().Store}}}
			for _, s := range []*store.Store{from, here} {
				if s == here && had.entries < 0 {
					continue
				}
				if err := s.CreateSegments([]mq.Segment{seg}); err != nil {
					t.Fatal(err)
				}
			}
			raw, end := fill(t, from, &seg, 40)
			if had.entries > 0 {
				fill(t, here, &seg, had.entries) // the same ones, as both are made the same way
			}
			p := holder(t, here, donor{store: from})
			seg.Sealed, seg.End = true, end
			pieces := 0
			err := p.Repair(t.Context(), &seg, func(context.Context, int) error { pieces++; return nil })
			if err != nil {
				t.Fatal(err)
			}
			if had.entries < 40 && pieces < 2 {
				t.Fatalf("taken in %d pieces", pieces)
			}
			var got [][]byte
			err = here.Scan(seg.ID, seg.Base, func(_ mq.Position, data []byte) bool {
				got = append(got, bytes.Clone(data))
				return true
			})
			if err != nil || len(got) != len(raw) {
				t.Fatalf("%d of %d entries: %v", len(got), len(raw), err)
			}
			for i := range raw {
				if !bytes.Equal(got[i], raw[i]) {
					t.Fatalf("entry %d differs", i)
				}
			}
			if err := here.Verify(seg.ID); err != nil {
				t.Fatal(err)
			}
			state := make(chan State, 1)
			p.Probe(seg.ID, func(s State) { state <- s })
			if s := <-state; s.Remade != (had.entries < 0) {
				t.Fatalf("made anew: %v", s.Remade)
			}
		})
	}
}

// A damaged copy is given up only when another node says that it has the segment whole: else it may be all that is left.
func TestRepairKeepsTheOnlyCopy(t *testing.T) {
	t.Parallel()
	from, here := openStore(t), openStore(t)
	seg := mq.Segment{ID: 5, Partition: testPartition, Number: 1, Quorum: 2, Leader: from.Identity(), Compared: 1,
		Replicas: []mq.Replica{{Store: from.Identity().Store}, {Store: here.Identity().Store}}}
	for _, s := range []*store.Store{from, here} {
		if err := s.CreateSegments([]mq.Segment{seg}); err != nil {
			t.Fatal(err)
		}
	}
	_, end := fill(t, here, &seg, 40)
	fill(t, from, &seg, 39)
	env := &Env{Log: slog.New(slog.DiscardHandler), Store: here, Peers: donor{store: from}, Metrics: NewMetrics(prometheus.NewRegistry())}
	p := &Partition{env: env, id: testPartition, log: env.Log}
	seg.Sealed, seg.End = true, end
	if p.wholeElsewhere(t.Context(), &seg) {
		t.Error("the other copy lacks an entry")
	}
	seg.End = mq.Position{Offset: 39}
	if !p.wholeElsewhere(t.Context(), &seg) {
		t.Error("the other copy is whole")
	}
}
