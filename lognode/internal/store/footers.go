package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/splashdam/splashdam/shared/mq"
)

// Footers are files beside the volumes, one a segment, whose content the store does not know: it keeps them with their
// segment and removes them with it. They are derived from the entries and not synced: what a power cut takes is
// derived again, and what it tears is noticed by the reader.

func (s *Store) footerPath(id mq.SegmentID) string {
	return filepath.Join(s.cfg.Dir, "footers", strconv.FormatUint(uint64(id), 10))
}

// WriteFooter cuts a segment's footer at a length and appends data, which makes it at+len(data) bytes long.
// ErrUnknownSegment when the segment is not here (any more), ErrStorageFull above the watermark of publishes.
func (s *Store) WriteFooter(id mq.SegmentID, at int64, data []byte) error {
	if !s.PublishAllowed() {
		return ErrStorageFull // a help must not take the room that entries need
	}
	s.footers.Lock()
	defer s.footers.Unlock()
	if _, ok := s.Segment(id); !ok {
		return fmt.Errorf("%w: %d", ErrUnknownSegment, id)
	}
	f, err := os.OpenFile(s.footerPath(id), os.O_RDWR|os.O_CREATE, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(s.footerPath(id)), 0o755); err == nil {
			f, err = os.OpenFile(s.footerPath(id), os.O_RDWR|os.O_CREATE, 0o644)
		}
	}
	if err != nil {
		return fmt.Errorf("store: footer: %w", err)
	}
	err = f.Truncate(at)
	if err == nil {
		_, err = f.WriteAt(data, at)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("store: footer of segment %d: %w", id, err)
	}
	return nil
}

// OpenFooter opens a segment's footer for reading; the caller closes it. ErrNotFound when there is none.
func (s *Store) OpenFooter(id mq.SegmentID) (f *os.File, size int64, err error) {
	f, err = os.Open(s.footerPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, ErrNotFound
	}
	if err != nil {
		return nil, 0, fmt.Errorf("store: footer: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("store: footer: %w", err), f.Close())
	}
	return f, info.Size(), nil
}

// removeFooters removes the footers of segments that are not here any more.
func (s *Store) removeFooters(ids []mq.SegmentID) {
	s.footers.Lock()
	defer s.footers.Unlock()
	for _, id := range ids {
		if _, ok := s.Segment(id); ok {
			continue
		}
		if err := os.Remove(s.footerPath(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("a footer could not be removed", "segment", id, "error", err) // the next start tries again
		}
	}
}

// sweepFooters removes what a crash between a segment's removal and its footer's left behind.
func (s *Store) sweepFooters() {
	list, err := os.ReadDir(filepath.Join(s.cfg.Dir, "footers"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("footers could not be listed", "error", err)
	}
	var gone []mq.SegmentID
	for _, e := range list {
		if id, err := strconv.ParseUint(e.Name(), 10, 64); err == nil {
			gone = append(gone, mq.SegmentID(id))
		}
	}
	s.removeFooters(gone)
}
