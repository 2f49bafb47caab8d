package store

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// volume is one Badger directory. The active one takes entries; a rolled one takes none and is closed and
// opened again for reading when somebody reads from it. Readers hold it with acquire and release.
type volume struct {
	number uint32
	dir    string
	log    *badgerLog
	// ts is the timestamp of the last synced commit; reads are at it. Only the committer raises it.
	ts atomic.Uint64
	// keep says what a mended table of it may hold, mended is called when it was opened for reading, perhaps mended. Both are set
	// before anybody opens it (volumeOf).
	keep   keeps
	mended func()
	// torn says that the last transaction in a WAL was not whole when it was opened for writing.
	torn bool
	// dirSeen is the change time of the directory up to which its names are synced. Committer only.
	dirSeen time.Time

	// Guarded by Store.mu. bytes is all that was ever put in; live and parts are what segments still
	// have here.
	bytes, live int64
	parts       int
	// tables is how many tables there were when they were counted last, uncounted how many entries were put in since.
	tables, uncounted int
	// rolled is set when it takes no more entries, listed when its list is on disk.
	rolled, listed bool
	// noCompact is set when its rest can't be copied because something in it is damaged.
	noCompact bool

	mu      sync.Mutex
	cond    *sync.Cond // signalled when busy ends
	db      *badger.DB // nil while closed
	refs    int
	busy    bool // opening or closing
	gone    bool
	lastUse time.Time
}

func newVolume(root string, number uint32, log *slog.Logger, errors *atomic.Int64) *volume {
	v := &volume{
		number: number, dir: volumeDir(root, number),
		log: &badgerLog{log: log.With("volume", number), errors: errors},
	}
	v.cond = sync.NewCond(&v.mu)
	return v
}

func volumeDir(root string, number uint32) string {
	return filepath.Join(root, fmt.Sprintf("%06d", number))
}

func listPath(root string, number uint32) string { return volumeDir(root, number) + ".list" }

// parseVolumeName reads a directory name made by volumeDir.
func parseVolumeName(name string) (uint32, bool) {
	n, err := strconv.ParseUint(name, 10, 32)
	if err != nil || n == 0 || fmt.Sprintf("%06d", n) != name {
		return 0, false
	}
	return uint32(n), true
}

// openForWriting opens the directory for the committer, making it if need be. What an earlier process wrote and
// did not sync is made durable first: Close flushes the memtables and syncs the value logs, so that
// nothing that recovery finds can be forgotten after it was reported.
func (v *volume) openForWriting() error {
	if dirHolds(v.dir) {
		db, err := v.openBadger(false)
		if err != nil {
			return err
		}
		if err := db.Close(); err != nil {
			return fmt.Errorf("store: settling volume %d: %w", v.number, err)
		}
	}
	db, err := v.openBadger(false)
	if err != nil {
		return err
	}
	if err := errors.Join(syncDir(v.dir), syncDir(filepath.Dir(v.dir))); err != nil {
		db.Close()
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.db = db
	v.tables = tablesOf(db)
	v.ts.Store(db.MaxVersion())
	return nil
}

// tablesOf is how many tables were made of memtables and not merged.
func tablesOf(db *badger.DB) int { return db.Levels()[0].NumTables }

// filled says whether a volume open for writing holds that many halves of what a volume is to hold. Store.mu is held.
func (v *volume) filled(halves int, volumeBytes int64) bool {
	return 2*v.bytes >= int64(halves)*volumeBytes || 2*v.tables >= halves*maxTables
}

// acquire gives the open Badger, opening it for reading if it is closed; release must follow. The error
// is errGone when the volume was removed.
func (v *volume) acquire() (*badger.DB, error) {
	db, opened, err := v.hold()
	if opened && v.mended != nil {
		v.mended()
	}
	return db, err
}

// hold is acquire, and says whether it opened the Badger.
func (v *volume) hold() (db *badger.DB, opened bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for v.busy {
		v.cond.Wait()
	}
	if v.gone {
		return nil, false, errGone
	}
	if v.db == nil {
		v.busy = true
		v.mu.Unlock()
		db, err := v.openBadger(true)
		v.mu.Lock()
		v.busy = false
		v.cond.Broadcast()
		if err != nil {
			return nil, false, err
		}
		v.db, opened = db, true
		v.ts.Store(math.MaxUint64)
	}
	v.refs++
	return v.db, opened, nil
}

func (v *volume) release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refs--
	v.lastUse = time.Now()
	v.cond.Broadcast()
}

// tryClose closes the Badger if nobody uses it. Readers that come meanwhile wait and open it again.
// Not while it is active.
func (v *volume) tryClose() (closed bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.busy || v.refs > 0 || v.db == nil {
		return v.db == nil, nil
	}
	return true, v.closeLocked()
}

func (v *volume) closeLocked() error {
	v.busy = true
	db := v.db
	v.db = nil
	v.mu.Unlock()
	err := closeBadger(db)
	v.mu.Lock()
	v.busy = false
	v.cond.Broadcast()
	return err
}

func closeBadger(db *badger.DB) (err error) {
	defer recovered(&err)
	return db.Close()
}

// close waits for the readers and closes the Badger; later readers get errGone.
func (v *volume) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.gone = true
	for v.busy || v.refs > 0 {
		v.cond.Wait()
	}
	if v.db == nil {
		return nil
	}
	return v.closeLocked()
}

// remove closes the volume and removes its directory. The rename comes first, so that a crash in the
// middle of it leaves nothing that looks like a damaged volume.
func (v *volume) remove() error {
	if err := v.close(); err != nil {
		v.log.debug("closing a volume that is removed: %v", []any{err})
	}
	dead := v.dir + ".dead"
	if err := os.Rename(v.dir, dead); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	root := filepath.Dir(v.dir)
	if err := removeIfThere(listPath(root, v.number)); err != nil {
		return err
	}
	if err := syncDir(root); err != nil {
		return err
	}
	if err := os.RemoveAll(dead); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// removeIfThere removes a file that may be missing.
func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// view runs f with a transaction at the last synced commit.
func (v *volume) view(f func(txn *badger.Txn) error) error {
	db, err := v.acquire()
	if err != nil {
		return err
	}
	defer v.release()
	return guarded(func() error {
		txn := db.NewTransactionAt(v.ts.Load(), false)
		defer txn.Discard()
		return f(txn)
	})
}

// dirClock is coarser than any file system's change times, which step with the kernel's tick.
const dirClock = 50 * time.Millisecond

// syncNames makes new names in the directory durable; Badger itself does not sync it when it makes a new
// log. Called by the committer after a commit; a stat when nothing changed.
func (v *volume) syncNames() error {
	info, err := os.Stat(v.dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	changed := info.ModTime()
	if changed.Equal(v.dirSeen) {
		return nil
	}
	now := time.Now()
	if err := syncDir(v.dir); err != nil {
		return err
	}
	// A second change within the same tick would not show: only a time that has passed is remembered. One that is far
	// ahead has passed too: the clock was set back since.
	if now.Sub(changed).Abs() > dirClock {
		v.dirSeen = changed
	}
	return nil
}
