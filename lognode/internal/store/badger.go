package store

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/splashdam/splashdam/shared/mq"
)

// badgerLog is a volume's Badger logger. Badger only logs a failed sync of the value log and acknowledges
// all the same (museum 38): any error logged makes the volume refuse further acknowledgements.
type badgerLog struct {
	log    *slog.Logger
	errors *atomic.Int64 // the store's count, for the metric
	first  atomic.Pointer[error]
}

// Errorf keeps the first error. What Badger says of a value that it can't read is left out: that is damage,
// the read finds it by the entry's CRC, and it says nothing of what is being written.
func (l *badgerLog) Errorf(format string, args ...any) {
	err := fmt.Errorf("store: badger: "+strings.TrimSpace(format), args...)
	l.errors.Add(1)
	l.log.Error("badger", "error", err)
	for _, read := range []string{"Unable to read: Key", "Key: %v, Version", "Invalid read"} {
		if strings.HasPrefix(format, read) {
			return
		}
	}
	l.first.CompareAndSwap(nil, &err)
}

// forget drops the error kept, once recovery has judged the volume by what is in it.
func (l *badgerLog) forget() { l.first.Store(nil) }

// Warningf, Infof and Debugf pass Badger's chatter on, below the level of ours.
func (l *badgerLog) Warningf(format string, args ...any) { l.debug(format, args) }
func (l *badgerLog) Infof(format string, args ...any)    { l.debug(format, args) }
func (l *badgerLog) Debugf(format string, args ...any)   {}

func (l *badgerLog) debug(format string, args []any) {
	l.log.Debug("badger", "message", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// err is the first error logged, or nil.
func (l *badgerLog) err() error {
	if e := l.first.Load(); e != nil {
		return *e
	}
	return nil
}

// noStall is a number of tables that no volume reaches.
const noStall = 1 << 20

// badgerOptions are the measured ones; doc.go and the design say why. Badger merges no tables: its compactors look 40 times a
// second for something to do in each volume that is open for writing, which is most of what an idle node does. A volume is full
// when it has maxTables of them instead, and what would wait for a merge is not to wait.
func badgerOptions(dir string, readOnly bool, log badger.Logger) badger.Options {
	return badger.DefaultOptions(dir).
		WithReadOnly(readOnly).
		WithSyncWrites(true).
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(valueLogFileSize).
		WithMemTableSize(memTableSize).
		WithNumCompactors(0).
		WithNumLevelZeroTablesStall(noStall).
		WithMetricsEnabled(false).
		// Without it a value whose header is damaged leaves its log locked (valueLog.Read of Badger 4.9), and Close waits for ever.
		WithVerifyValueChecksum(true).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithLogger(log)
}

// openBadger opens a volume's Badger. Damage that makes Badger fail or panic is ErrDamaged, unless it is one of a table or of the
// manifest and the volume knows what may be in a mended one.
func (v *volume) openBadger(readOnly bool) (db *badger.DB, err error) {
	opt := badgerOptions(v.dir, readOnly, v.log)
	if err := settleTables(v.dir, opt, v.log, v.keep); err != nil {
		return nil, err
	}
	if err := plainHeads(v.dir); err != nil {
		return nil, err
	}
	if !readOnly { // a closed volume has no WAL, and Badger reads through no value log then
		torn, err := endLogs(v.dir)
		if err != nil {
			return nil, err
		}
		v.torn = v.torn || torn
	}
	defer recovered(&err)
	db, err = badger.OpenManaged(opt)
	if err != nil && !exhausted(err) {
		return nil, fmt.Errorf("%w: badger: %w", ErrDamaged, err)
	}
	return db, err
}

// settleTables makes a directory one whose tables are whole and named by its manifest.
func settleTables(dir string, opt badger.Options, log *badgerLog, keep keeps) error {
	t, err := inspectTables(dir, opt)
	if err != nil {
		return err
	}
	broken := t.damage()
	switch {
	case broken != nil && keep == nil:
		return broken
	case broken != nil:
		log.log.Error("tables are made anew of what is intact", "error", broken)
		if err := t.mend(keep); err != nil && !exhausted(err) {
			return errors.Join(broken, err)
		} else if err != nil {
			return err
		}
	case t.unnamed:
		return t.writeManifest()
	}
	return nil
}

// exhausted tells a lack of resources from damage, by the text: Badger's errors don't wrap.
func exhausted(err error) bool {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EACCES, syscall.EPERM} {
		if strings.Contains(err.Error(), lack.Error()) {
			return true
		}
	}
	return strings.Contains(err.Error(), "Cannot acquire directory lock")
}

// recovered turns a panic, also one by a fault in a memory map, into an error. Deferred as
// `defer recovered(&err)`.
func recovered(err *error) {
	if r := recover(); r != nil {
		if p, ok := r.(callersPanic); ok {
			panic(p.value)
		}
		*err = fmt.Errorf("%w: badger panicked: %v", ErrDamaged, r)
	}
}

// callersPanic is a panic of a function that was given to a read. It says nothing about the bytes: it goes on to the caller,
// through whatever guards the read.
type callersPanic struct{ value any }

// callback calls a function that was given to a read. A fault of the memory map is the disk's, also in there: such an error
// knows its address.
func callback(f func(at mq.Position, data []byte) bool, at mq.Position, data []byte) bool {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			panic(r)
		default:
			panic(callersPanic{r})
		}
	}()
	return f(at, data)
}

// guarded runs a read over Badger's memory maps: a panic over damaged bytes and a fault of the map (an
// unreadable disk block, a truncated file) come back as ErrDamaged instead of ending the process.
func guarded(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer recovered(&err)
	return read()
}

const keySize = 8 + mq.PositionSize

// entryKey is the key of an entry: segment id, offset, seq, big endian.
func entryKey(id mq.SegmentID, at mq.Position) []byte {
	return at.AppendKey(appendSegment(make([]byte, 0, keySize), id))
}

func appendSegment(b []byte, id mq.SegmentID) []byte {
	return append(b, byte(id>>56), byte(id>>48), byte(id>>40), byte(id>>32), byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
}

// parseKey reads a key; ok is false for one that the store never writes.
func parseKey(key []byte) (id mq.SegmentID, at mq.Position, ok bool) {
	if len(key) != keySize {
		return 0, mq.Position{}, false
	}
	var v uint64
	for _, c := range key[:8] {
		v = v<<8 | uint64(c)
	}
	return mq.SegmentID(v), mq.ParsePosition(key[8:]), true
}

// iterate opens an iterator over a segment's keys in one Badger, or over all keys with id 0.
func iterate(txn *badger.Txn, id mq.SegmentID, reverse bool) *badger.Iterator {
	o := badger.IteratorOptions{Reverse: reverse}
	if id != 0 {
		o.Prefix = appendSegment(nil, id)
	}
	return txn.NewIterator(o)
}

// itemEntry reads an item's entry and checks its CRC and that it is the one its key says. f's data is
// valid during the call only.
func itemEntry(item *badger.Item, f func(e *mq.Entry, data []byte) error) error {
	id, at, ok := parseKey(item.Key())
	if !ok {
		return fmt.Errorf("%w: a key of %d bytes", ErrDamaged, len(item.Key()))
	}
	return item.Value(func(data []byte) error {
		e, err := mq.ParseEntry(data)
		if err != nil {
			return errors.Join(fmt.Errorf("%w: segment %d at %s", ErrDamaged, id, at), err)
		}
		if e.Segment != id || e.At != at {
			return fmt.Errorf("%w: segment %d at %s holds the entry of segment %d at %s", ErrDamaged, id, at, e.Segment, e.At)
		}
		return f(&e, data)
	})
}
