package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/splashdam/splashdam/shared/mq"
)

// crashCopy copies a store's directory while it is in use and returns a configuration for the copy: what a
// process that is killed leaves.
func crashCopy(t *testing.T, cfg Config) Config {
	t.Helper()
	to := t.TempDir()
	copyDir(t, cfg.Dir, to)
	cfg.Dir = to
	return cfg
}

// copyDir copies the small files first, the ledger before the facts: what is in the ledger must be in the facts, and what is in
// both in the volumes, which go on being written meanwhile.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		if os.IsNotExist(err) {
			return // removed by the janitor meanwhile
		}
		t.Fatal(err)
	}
	for _, dirs := range []bool{false, true} {
		for _, e := range slices.Backward(entries) {
			if e.IsDir() != dirs {
				continue
			}
			src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
			if dirs {
				if err := os.Mkdir(dst, 0o755); err != nil {
					t.Fatal(err)
				}
				copyDir(t, src, dst)
				continue
			}
			copyFile(t, src, dst)
		}
	}
}

// copyFile copies what is written of a file, and leaves its holes: logs are made at the size that they may have in the end.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	if os.IsNotExist(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(copyData(dst, src), dst.Close()); err != nil {
		t.Fatal(err)
	}
}

func copyData(dst, src *os.File) error {
	info, err := src.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	for end := int64(0); end < size; {
		data, err := src.Seek(end, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // a hole up to the end
		}
		if err != nil {
			return err
		}
		if end, err = src.Seek(data, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(dst, data), io.NewSectionReader(src, data, end-data)); err != nil {
			return err
		}
	}
	return dst.Truncate(size)
}

// crashWriters is how many segments the crash test's process writes to.
const crashWriters = 8

// crashJournal makes a segment's entries, the same ones in both processes.
func crashJournal(id mq.SegmentID) func() (*journal, Append) {
	j, rng := newJournal(id), rand.New(rand.NewPCG(1, uint64(id)))
	return func() (*journal, Append) { return j, j.next(rng.Uint32N(3), rng.IntN(4000)) }
}

// crashChild is the process that gets killed: it appends for ever and prints a segment's id for each entry
// that was acknowledged.
func crashChild(dir string) error {
	cfg := testConfig(dir)
	cfg.VolumeBytes = 1 << 20
	s, err := Open(cfg, quiet, nil)
	if err != nil {
		return err
	}
	errs := make(chan error)
	var out sync.Mutex
	for id := mq.SegmentID(1); id <= crashWriters; id++ {
		if err := s.CreateSegments([]mq.Segment{segmentOf(id, mq.Position{})}); err != nil {
			return err
		}
		next := crashJournal(id)
		go func() {
			done := make(chan error, 1)
			for {
				_, a := next()
				a.Done = func(err error) { done <- err }
				err := s.Append(a)
				if err == nil {
					err = <-done
				}
				if err != nil {
					errs <- err
					return
				}
				out.Lock()
				fmt.Println(id)
				out.Unlock()
			}
		}()
	}
	go func() { errs <- churn(s) }()
	return <-errs
}

// churn makes segments and removes them again, so that volumes roll, are compacted and removed meanwhile.
func churn(s *Store) error {
	for id := mq.SegmentID(100); ; id++ {
		if err := s.CreateSegments([]mq.Segment{segmentOf(id, mq.Position{})}); err != nil {
			return err
		}
		j := newJournal(id)
		if _, err := appendAll(s, j.next(1, 300_000), j.next(1, 200_000)); err != nil {
			return err
		}
		if err := s.RemoveSegments([]mq.SegmentID{id - 1}); err != nil {
			return err
		}
	}
}

// Museum 1: acknowledged before it is durable. A process is stopped and its directory copied, several times,
// then it is killed: whatever it acknowledged must be in each copy, and in the end in the directory.
func TestMuseum01AcknowledgedIsThere(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t.TempDir())
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), crashEnv+"="+cfg.Dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	acked := map[mq.SegmentID]int{}
	lines := bufio.NewScanner(out)
	for round := 1; round <= 4; round++ {
		for n := 0; n < 500; n++ {
			if !lines.Scan() {
				t.Fatal("the child ended: ", lines.Err())
			}
			id, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatal(err)
			}
			acked[mq.SegmentID(id)]++
		}
		if round == 4 {
			break
		}
		if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		awaitStopped(t, child.Process.Pid)
		copied := crashCopy(t, cfg)
		if err := child.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		mustHoldAcked(t, copied, acked)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	mustHoldAcked(t, cfg, acked)
	mustHoldAcked(t, cfg, acked) // and once more, after a clean close
}

// awaitStopped returns when every thread of a process has stopped.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("waiting for the child to stop: %v %v", status, err)
	}
}

func mustHoldAcked(t *testing.T, cfg Config, acked map[mq.SegmentID]int) {
	t.Helper()
	s := mustOpen(t, cfg)
	defer mustClose(t, s)
	for id, n := range acked {
		info, ok := s.Segment(id)
		if !ok || info.Damaged || info.Count < uint64(n) {
			t.Fatalf("segment %d: %d entries were acknowledged, the store has %+v", id, n, info)
		}
		next := crashJournal(id)
		var j *journal
		for range info.Count {
			j, _ = next()
		}
		j.mustHold(t, s, int(info.Count))
		if err := s.Verify(id); err != nil {
			t.Fatal(err)
		}
	}
}
