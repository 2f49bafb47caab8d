package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// files are the victim's files that may be harmed: volumes (value logs, WALs, tables, manifests), their lists and the
// ledger. The facts are not: a node whose facts are damaged refuses to start, which is wiping.
func (r *rig) files() (names []string, err error) {
	dir := r.nodeDir(r.victim)
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		info, err := d.Info()
		if err != nil || info.Size() == 0 {
			return err
		}
		if rel == "ledger" || strings.HasPrefix(rel, "volumes") && d.Name() != "LOCK" && d.Name() != "DISCARD" && !strings.Contains(rel, ".broken") {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// harm kills the victim, harms one of its files and starts it again.
func (r *rig) harm(ctx context.Context, what string, how func(f *os.File, used int64) error) error {
	m := r.cluster.Node(r.victim)
	if err := m.Kill(); err != nil {
		return err
	}
	names, err := r.files()
	if err != nil || len(names) == 0 {
		return errors.Join(err, r.begin(ctx, m))
	}
	name := names[r.random.IntN(len(names))]
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	used, err := usedLength(f)
	if err == nil && used > 0 {
		r.say("%s %s (%d bytes used)", what, name, used)
		err = how(f, used)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return r.begin(ctx, m)
}

// usedLength is where a file's contents end: Badger makes its logs longer than they are, with zeros.
func usedLength(f *os.File) (int64, error) {
	all, err := io.ReadAll(f)
	return int64(len(bytes.TrimRight(all, "\x00"))), err
}

// damageFile flips bits in a few bytes that lie together.
func damageFile(r *rig, ctx context.Context) error {
	return r.harm(ctx, "damage", func(f *os.File, used int64) error {
		b := make([]byte, min(used, 1+r.random.Int64N(64)))
		at := r.random.Int64N(used - int64(len(b)) + 1)
		if _, err := f.ReadAt(b, at); err != nil {
			return err
		}
		for i := range b {
			b[i] ^= byte(1 + r.random.IntN(255))
		}
		_, err := f.WriteAt(b, at)
		return err
	})
}

// truncateFile cuts something off the end.
func truncateFile(r *rig, ctx context.Context) error {
	return r.harm(ctx, "truncate", func(f *os.File, used int64) error { return f.Truncate(r.random.Int64N(used)) })
}

// wipeNode empties the victim's directory: it comes back as a new node under the same name.
func wipeNode(r *rig, ctx context.Context) error {
	m := r.cluster.Node(r.victim)
	r.say("wipe %s", m.Name())
	if err := m.Kill(); err != nil {
		return err
	}
	inside, err := os.ReadDir(r.nodeDir(r.victim))
	if err != nil {
		return err
	}
	for _, e := range inside {
		if err := os.RemoveAll(filepath.Join(r.nodeDir(r.victim), e.Name())); err != nil {
			return err
		}
	}
	pause(ctx, r.absence())
	return r.begin(ctx, m)
}

// fillDisk fills the victim's disk beyond its watermarks, in steps that it can notice, and frees it again.
func fillDisk(r *rig, ctx context.Context) error {
	return r.fill(ctx, 97, 300*time.Millisecond)
}

// fillDiskAtOnce leaves not a byte, faster than any watermark is looked at. The node may die of it (a write to a
// mapped file on a full disk is a SIGBUS), and must start again when there is room.
func fillDiskAtOnce(r *rig, ctx context.Context) error { return r.fill(ctx, 100, 0) }

func (r *rig) fill(ctx context.Context, percent int64, step time.Duration) error {
	if !r.mounted {
		return nil
	}
	name := filepath.Join(r.nodeDir(r.victim), "filler")
	r.say("fill the disk of node-%d to %d %%", r.victim, percent)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	chunk := make([]byte, 8<<20)
	for {
		used, total, err := diskUsage(name)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		room := total*percent/100 - used
		if room <= 0 {
			break
		}
		if _, err := f.Write(chunk[:min(room, int64(len(chunk)))]); err != nil {
			break // full
		}
		pause(ctx, step/10)
	}
	pause(ctx, 3*time.Second+r.absence())
	if err := errors.Join(f.Close(), os.Remove(name)); err != nil {
		return err
	}
	r.say("the disk of node-%d is free again", r.victim)
	return r.revive(ctx)
}

// diedFull is counted beside the faults.
const diedFull = "(died of a full disk)"

// revive starts the victim again if it died of its full disk.
func (r *rig) revive(ctx context.Context) error {
	pause(ctx, 500*time.Millisecond)
	select {
	case err := <-r.cluster.Failed():
		m := r.cluster.Node(r.victim)
		if !strings.HasPrefix(err.Error(), m.Name()+" ") {
			return err
		}
		r.say("%v", err)
		r.counts[diedFull]++
		_ = m.Stop(ctx) // it says how it ended
		if err := r.begin(ctx, m); err != nil {
			return fmt.Errorf("after a full disk: %w", err)
		}
	default:
	}
	return nil
}
