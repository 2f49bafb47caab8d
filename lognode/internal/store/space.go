package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// space watches the disk. A full disk kills a process that writes to mapped files (SIGBUS), and its
// directory can't be opened again until space is freed: so writes stop before that, and a ballast file
// lies there to be removed.
type space struct {
	cfg     Config
	log     *slog.Logger
	ballast string

	mu      sync.Mutex // one reading at a time
	checked time.Time
	share   atomic.Uint64 // used share, in parts per million; kept when a reading fails
}

const perMillion = 1_000_000

func newSpace(cfg Config, log *slog.Logger) *space {
	if cfg.DiskUsage == nil {
		cfg.DiskUsage = statfs
	}
	return &space{cfg: cfg, log: log, ballast: filepath.Join(cfg.Dir, "ballast")}
}

// statfs counts what is reserved for root as used: the process can't have it.
func statfs(dir string) (used, total uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("store: statfs %s: %w", dir, err)
	}
	size := uint64(st.Bsize)
	free := uint64(st.Bavail)
	taken := (uint64(st.Blocks) - uint64(st.Bfree)) * size
	return taken, taken + free*size, nil
}

// used is the used share of the disk, read anew when the last reading is older than SpaceEvery.
func (p *space) used() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.checked.IsZero() || p.cfg.SpaceEvery < 0 || time.Since(p.checked) >= p.cfg.SpaceEvery {
		p.readLocked()
	}
	return float64(p.share.Load()) / perMillion
}

func (p *space) readLocked() {
	used, total, err := p.cfg.DiskUsage(p.cfg.Dir)
	p.checked = time.Now()
	if err != nil || total == 0 {
		p.log.Warn("disk usage is not known", "error", err)
		return
	}
	p.share.Store(uint64(float64(used) / float64(total) * perMillion))
}

func (p *space) full() bool { return p.used() >= p.cfg.RefuseShare }

// Space is the used share of the disk, 0 to 1.
func (s *Store) Space() float64 { return s.space.used() }

// PublishAllowed says whether the disk is below the publish watermark. Above it, what users send is
// refused (507 storage_full); what the system writes about it is still taken up to the refuse watermark.
func (s *Store) PublishAllowed() bool { return s.space.used() < s.cfg.PublishShare }

// prepare makes room to open Badger in: above the refuse watermark it removes the ballast. ErrStorageFull
// when that is not enough.
func (p *space) prepare() error {
	if !p.full() {
		return nil
	}
	if err := removeIfThere(p.ballast); err != nil {
		return err
	}
	p.log.Warn("disk is full; the ballast file was removed", "share", p.used())
	p.mu.Lock()
	p.readLocked()
	p.mu.Unlock()
	used, total, err := p.cfg.DiskUsage(p.cfg.Dir)
	if err != nil {
		return err
	}
	// Opening flushes what is in a log to a table, at most a memtable or two, into mapped files. The
	// default ballast is twice that.
	const least = 2 * memTableSize
	if total-min(used, total) < least {
		return fmt.Errorf("%w: %d bytes are free, opening takes %d", ErrStorageFull, total-min(used, total), least)
	}
	return nil
}

// tend makes the ballast anew when there is space again: with it the disk must stay below the publish
// watermark. Called at opening and by the janitor.
func (p *space) tend() {
	if p.cfg.BallastBytes == 0 {
		return
	}
	if info, err := os.Stat(p.ballast); err == nil && info.Size() == p.cfg.BallastBytes {
		return
	}
	used, total, err := p.cfg.DiskUsage(p.cfg.Dir)
	if err != nil || float64(used)+float64(p.cfg.BallastBytes) >= p.cfg.PublishShare*float64(total) {
		return
	}
	if err := p.makeBallast(); err != nil {
		p.log.Warn("the ballast file was not made", "error", errors.Join(err, removeIfThere(p.ballast)))
	}
}

// makeBallast writes real blocks: a sparse file would free nothing.
func (p *space) makeBallast() error {
	f, err := os.OpenFile(p.ballast, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	chunk := make([]byte, 1<<20)
	for left := p.cfg.BallastBytes; left > 0 && err == nil; left -= int64(len(chunk)) {
		_, err = f.Write(chunk[:min(left, int64(len(chunk)))])
	}
	return errors.Join(err, f.Sync(), f.Close())
}
