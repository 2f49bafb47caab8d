package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

func TestMirrorIsKept(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	s := mustOpen(t, cfg)
	if b := s.ReadMirror(); b != nil {
		t.Fatalf("a new store has %q", b)
	}
	for _, text := range []string{"first", "second, and longer", "3"} {
		if err := s.WriteMirror([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, s)
	// A crash while a later one was being written.
	if err := os.WriteFile(filepath.Join(cfg.Dir, mirrorName+".new"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, cfg)
	if b := string(s.ReadMirror()); b != "3" {
		t.Errorf("after a restart: %q", b)
	}
	if err := s.WriteMirror(make([]byte, maxFrame+1)); err == nil {
		t.Error("a configuration beyond the bound was kept")
	}
	b, err := os.ReadFile(filepath.Join(cfg.Dir, mirrorName))
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-1] ^= 1
	if err := os.WriteFile(filepath.Join(cfg.Dir, mirrorName), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if b := s.ReadMirror(); b != nil {
		t.Errorf("a damaged one was read: %q", b)
	}
}

func TestStoreFollowsNothingOlder(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, testConfig(t.TempDir()))
	a, b := mq.PartitionID{Topic: 1}, mq.PartitionID{Topic: 2}
	heads := []mq.Head{{Partition: a, Next: 6, Revision: 50}, {Partition: b}}
	for range 2 {
		if err := s.SetAllNamed(heads); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		p     mq.PartitionID
		named mq.Named
		want  bool
	}{
		{a, mq.Named{Number: 5, Revision: 50}, true}, {a, mq.Named{Number: 5, Revision: 51}, true}, {a, mq.Named{Number: 6, Revision: 50}, true},
		{a, mq.Named{Number: 6, Revision: 3}, true}, // rebuilt metadata: its revisions begin anew
		{a, mq.Named{Number: 5, Revision: 49}, false}, {a, mq.Named{Number: 4, Revision: 99}, false},
		{b, mq.Named{Number: 0, Revision: 1}, true}, {b, mq.Named{Number: 1, Revision: 1}, true},
	} {
		if got := s.Named(x.p).Follows(x.named); got != x.want {
			t.Errorf("partition %s, number %d at revision %d: follows %v", x.p, x.named.Number, x.named.Revision, got)
		}
	}
	seen := 0
	s.AllNamed(func(p mq.PartitionID, n mq.Named) {
		seen++
		if p != a || n != (mq.Named{Number: 5, Revision: 50}) {
			t.Errorf("named %s %d %d", p, n.Number, n.Revision)
		}
	})
	if seen != 1 {
		t.Errorf("%d partitions are named", seen)
	}
}
