package lognode

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/lognode/internal/replica"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// A damaged copy that is asked to seal says nothing of its tail, but its flag is on disk before it answers: what is intact of it may count for
// an operator's force, behind which nothing may be taken, also after a restart and a restoration.
func TestDamagedCopyKeepsItsSealFlag(t *testing.T) {
	t.Parallel()
	cfg := store.DefaultConfig(t.TempDir())
	cfg.BallastBytes, cfg.LedgerEvery = 0, 1<<40
	cfg.DiskUsage = func(string) (uint64, uint64, error) { return 10, 100, nil }
	open := func() *store.Store {
		st, err := store.Open(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st := open()
	seg := mq.Segment{ID: 1, Number: 1, Replicas: []mq.Replica{{Store: st.Identity().Store}}, Quorum: 1, Leader: st.Identity()}
	if err := st.CreateSegments([]mq.Segment{seg}); err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("spoil me"), 500)
	var last mq.Position
	for i := range uint64(3) {
		e := mq.Entry{Segment: 1, At: mq.Position{Offset: i}, Prev: last, Count: 1, Boot: 1, Records: text}
		if i != 1 {
			e.Records = bytes.Repeat([]byte("leave me"), 500)
		}
		done := make(chan error, 1)
		err := st.Append(store.Append{Segment: 1, At: e.At, Next: e.Next(), Data: e.AppendTo(nil), Done: func(err error) { done <- err }})
		if err = errors.Join(err, <-done); err != nil {
			t.Fatal(err)
		}
		last = e.At
	}
	crashed := t.TempDir() // a start after a crash reads what the ledger does not vouch for
	if err := errors.Join(os.CopyFS(crashed, os.DirFS(cfg.Dir)), st.Close()); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = crashed
	if err := filepath.WalkDir(filepath.Join(cfg.Dir, "volumes"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if at := bytes.Index(b, text); err == nil && at >= 0 {
			b[at] ^= 0xff
			err = os.WriteFile(path, b, 0o600)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	st = open()
	if info, _ := st.Segment(1); !info.Damaged || info.SealFlag {
		t.Fatalf("%+v", info)
	}
	clock := replica.NewClock()
	env := &replica.Env{Log: slog.New(slog.DiscardHandler), Store: st, Clock: clock, Timers: replica.NewTimers(clock), Cache: &replica.EntryCache{},
		Metrics: replica.NewMetrics(prometheus.NewRegistry()), Readers: make(chan struct{}, 1)}
	n := &Node{log: env.Log, store: st, env: env, partitions: map[mq.PartitionID]*replica.Partition{}}
	info, _ := st.Segment(1)
	n.partition(seg.Partition).Adopt(info)
	res, err := (&server{node: n}).Seal(t.Context(), &mqpb.SealRequest{Segments: []uint64{1}})
	if err != nil {
		t.Fatal(err)
	}
	if s := res.Segments[0]; s.Known || !s.Damaged || s.Tail.MQ() != (mq.Position{Offset: 1}) {
		t.Errorf("a damaged copy answers %v", s)
	}
	n.partition(seg.Partition).Close()
	env.Timers.Close()
	for range 2 {
		if info, _ := st.Segment(1); !info.Damaged || !info.SealFlag {
			t.Errorf("%+v", info)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		st = open()
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}
