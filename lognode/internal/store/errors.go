package store

import (
	"errors"
	"fmt"
)

// The errors that callers tell apart with errors.Is.
var (
	// ErrBusy says that the append queue is at its bound; the caller sheds load or tries again later.
	ErrBusy = errors.New("store: append queue is full")
	// ErrStorageFull says that the disk is at or above the refuse watermark.
	ErrStorageFull = errors.New("store: disk is full")
	// ErrClosed says that the store is closed or closing.
	ErrClosed = errors.New("store: closed")
	// ErrNotFound says that there is no entry at the asked place.
	ErrNotFound = errors.New("store: no such entry")
	// ErrUnknownSegment says that the store has no creation record of the segment.
	ErrUnknownSegment = errors.New("store: unknown segment")
	// ErrDamaged says that synced entries are not what was written, or are missing.
	ErrDamaged = errors.New("store: segment is damaged")
	// ErrSealed says that the segment has its seal flag and takes no more entries (or none beyond its end).
	ErrSealed = errors.New("store: segment is sealed")
	// ErrOutOfOrder says that an entry does not follow the segment's tail.
	ErrOutOfOrder = errors.New("store: entry does not follow the tail")
	// ErrConflict says that another value is already recorded: another cluster id, another segment under
	// the same id, another end.
	ErrConflict = errors.New("store: conflicts with what is recorded")
	// ErrAccount says that a new copy does not hold what the account of the old one says. It is an ErrConflict.
	ErrAccount = fmt.Errorf("%w: its account differs", ErrConflict)
	// ErrLocked says that another process has the directory open.
	ErrLocked = errors.New("store: directory is in use by another process")
	// ErrFactsDamaged says that the node's own facts can't be trusted: the directory must be set aside
	// and the node started as a new one.
	ErrFactsDamaged = errors.New("store: the node's facts are damaged")

	// errGone says that a volume was removed while its reader was on the way; the reader looks again.
	errGone = errors.New("store: volume is gone")
)
