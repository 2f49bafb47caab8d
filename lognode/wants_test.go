package lognode

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/mq"
)

// What was said to be whole is said no more when it is found damaged, or is gone: a store that is lost, and may hold the last whole
// copy, is not let go for it.
func TestDamagedCopyIsNotVouchedFor(t *testing.T) {
	t.Parallel()
	cfg := store.DefaultConfig(t.TempDir())
	cfg.BallastBytes = 0
	cfg.DiskUsage = func(string) (uint64, uint64, error) { return 10, 100, nil }
	st, err := store.Open(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	text := bytes.Repeat([]byte("spoil me"), 100)
	for id := mq.SegmentID(1); id <= 3; id++ {
		e := mq.Entry{Segment: id, Count: 1, Boot: 1, Records: text}
		if id != 2 {
			e.Records = bytes.Repeat([]byte("leave me"), 100)
		}
		done := make(chan error, 1)
		err := errors.Join(
			st.CreateSegments([]mq.Segment{{ID: id, Number: 1, Replicas: []mq.Replica{{Store: st.Identity().Store}}, Quorum: 1, Leader: st.Identity()}}),
			st.Append(store.Append{Segment: id, Next: e.Next(), Data: e.AppendTo(nil), Done: func(err error) { done <- err }}))
		if err = errors.Join(err, <-done); err != nil {
			t.Fatal(err)
		}
	}
	w := newWants(&Node{store: st})
	said := func() []mq.SegmentID {
		w.mu.Lock()
		defer w.mu.Unlock()
		list := w.whole()
		slices.Sort(list)
		return list
	}
	for id := mq.SegmentID(1); id <= 3; id++ {
		w.copied(id)
	}
	if got := said(); !slices.Equal(got, []mq.SegmentID{1, 2, 3}) {
		t.Fatalf("%v are whole", got)
	}
	if err := filepath.WalkDir(cfg.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		at := bytes.Index(b, text)
		if err != nil || at < 0 {
			return err
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt([]byte{0}, int64(at))
		return errors.Join(err, f.Close())
	}); err != nil {
		t.Fatal(err)
	}
	if err := st.Verify(2); !errors.Is(err, store.ErrDamaged) {
		t.Fatalf("the damage is not met: %v", err)
	}
	if err := st.RemoveSegments([]mq.SegmentID{3}); err != nil {
		t.Fatal(err)
	}
	if got := said(); !slices.Equal(got, []mq.SegmentID{1}) {
		t.Errorf("%v are said to be whole", got)
	}
}
