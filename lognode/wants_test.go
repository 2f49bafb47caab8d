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

// storeIn opens a store whose disk has room.
func storeIn(t *testing.T, dir string) *store.Store {
	cfg := store.DefaultConfig(dir)
	cfg.BallastBytes = 0
	cfg.DiskUsage = func(string) (uint64, uint64, error) { return 10, 100, nil }
	st, err := store.Open(cfg, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// says are the copies that the next report says are whole.
func (w *wants) says() []mq.SegmentID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.whole()
}

// What was said to be whole is said no more when it is found damaged, or is gone: a store that is lost, and may hold the last whole
// copy, is not let go for it.
func TestDamagedCopyIsNotVouchedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := storeIn(t, dir)
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
	for id := mq.SegmentID(1); id <= 3; id++ {
		w.copied(id)
	}
	if got := w.says(); !slices.Equal(got, []mq.SegmentID{1, 2, 3}) {
		t.Fatalf("%v are whole", got)
	}
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
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
	if got := w.says(); !slices.Equal(got, []mq.SegmentID{1}) {
		t.Errorf("%v are said to be whole", got)
	}
}

// Several nodes have to say of the same segment that it is whole, and a report is bounded: so each says the lowest first, whatever came first.
func TestLowestSegmentsAreVouchedForFirst(t *testing.T) {
	t.Parallel()
	st := storeIn(t, t.TempDir())
	var made []mq.Segment
	var lowest []mq.SegmentID
	for id := mq.SegmentID(1); id <= maxCopied+10; id++ {
		made = append(made, mq.Segment{ID: id, Number: 1, Replicas: []mq.Replica{{Store: st.Identity().Store}}, Quorum: 1, Leader: st.Identity()})
		if id <= maxCopied {
			lowest = append(lowest, id)
		}
	}
	if err := st.CreateSegments(made); err != nil {
		t.Fatal(err)
	}
	w := newWants(&Node{store: st})
	for id := mq.SegmentID(maxCopied + 10); id > 0; id-- {
		w.copied(id)
	}
	if got := w.says(); !slices.Equal(got, lowest) {
		t.Errorf("%d are said to be whole, from %d on", len(got), got[0])
	}
	w.heard(func(id mq.SegmentID) bool { return id > 5 })
	if got := w.says(); len(got) != maxCopied || got[0] != 6 {
		t.Errorf("%d are said to be whole after some were heard, from %d on", len(got), got[0])
	}
}

// While somebody copies a segment all who have it vouch for it: whom the controller lets go depends on how many are whole.
func TestWhoVouches(t *testing.T) {
	t.Parallel()
	a, b, c := mq.Replica{Store: "a"}, mq.Replica{Store: "b"}, mq.Replica{Store: "c"}
	quiet := &mq.Segment{Replicas: []mq.Replica{a, b}}
	copying := &mq.Segment{Replicas: []mq.Replica{a, b}, Adding: []mq.Replica{c}}
	leaving := map[mq.StoreID]bool{"b": true}
	for _, x := range []struct {
		what    string
		id      mq.StoreID
		s       *mq.Segment
		leaving map[mq.StoreID]bool
		want    bool
	}{
		{"there is none", "a", nil, nil, false},
		{"nobody waits", "a", quiet, nil, false},
		{"a replica is to be emptied", "a", quiet, leaving, true},
		{"the one that copies", "c", copying, nil, true},
		{"a replica of what is copied", "a", copying, nil, true},
		{"somebody else", "d", copying, leaving, false},
	} {
		if got := vouches(x.id, x.s, x.leaving); got != x.want {
			t.Errorf("%s: %v", x.what, got)
		}
	}
}
