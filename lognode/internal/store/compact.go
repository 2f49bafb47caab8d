package store

import (
	"errors"
	"fmt"
	"os"
	"sort"

	"github.com/dgraph-io/badger/v4"

	"github.com/splashdam/splashdam/shared/mq"
)

// mostlyDead is the living share below which a closed volume's rest is copied forward.
const mostlyDead = 0.25

// copied is a part on its way to another volume.
type copied struct {
	id   mq.SegmentID
	gen  uint64
	old  *part
	part part // as it was when the copying began; vol is the old volume
}

// compact copies the living rest of mostly dead volumes into a new one and removes them. The new volume
// has a list from its first moment and becomes one by a rename: a crash before leaves the old ones, a
// crash after leaves the new one, whose list says which ones it replaces.
func (s *Store) compact() {
	for s.Err() == nil {
		from, parts, target := s.planCompaction()
		if len(from) == 0 {
			return
		}
		if err := s.copyForward(from, parts, target); err != nil {
			s.log.Warn("volumes were not compacted", "error", err)
			s.mu.Lock()
			for _, v := range from {
				v.noCompact = true
			}
			s.mu.Unlock()
			if err := errors.Join(os.RemoveAll(target.dir+".tmp"), removeIfThere(listPath(s.root, target.number))); err != nil {
				s.log.Warn("a half copied volume stays until the next start", "error", err)
			}
			return
		}
		s.metrics.compacted.Inc()
	}
}

// planCompaction picks volumes whose living rests fit one new volume, and takes a number for it.
func (s *Store) planCompaction() (from []*volume, parts []copied, target *volume) {
	if s.space.full() {
		return nil, nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	chosen := map[*volume]bool{}
	var size int64
	for _, v := range s.volumes {
		dead := v.listed && !v.noCompact && v.parts > 0 && float64(v.live) < mostlyDead*float64(v.bytes)
		if dead && size+v.live <= s.cfg.VolumeBytes {
			size += v.live
			chosen[v] = true
			from = append(from, v)
		}
	}
	if len(from) == 0 {
		return nil, nil, nil
	}
	for g := range s.copiesLocked {
		for _, p := range g.whole() {
			if chosen[p.vol] {
				parts = append(parts, copied{id: g.facts.segment.ID, gen: g.facts.gen, old: p, part: *p})
			}
		}
	}
	sort.Slice(parts, func(i, j int) bool {
		a, b := parts[i], parts[j]
		return a.id < b.id || a.id == b.id && a.part.first.Before(b.part.first)
	})
	return from, parts, s.newVolumeLocked()
}

func (s *Store) copyForward(from []*volume, parts []copied, target *volume) error {
	final := target.dir
	target.dir = final + ".tmp"
	if err := target.openForWriting(); err != nil {
		target.dir = final
		return err
	}
	list := &volumeList{Volume: target.number}
	err := s.copyParts(parts, target)
	err = errors.Join(err, target.close())
	target.dir = final
	if err = errors.Join(err, target.log.err()); err != nil {
		return err
	}
	for _, c := range parts {
		list.Bytes += c.part.bytes
		list.Parts = append(list.Parts, c.part.entry(c.id, c.gen))
	}
	for _, v := range from {
		list.Replaces = append(list.Replaces, v.number)
	}
	if err := list.write(s.root); err != nil {
		return err
	}
	if err := os.Rename(final+".tmp", final); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := syncDir(s.root); err != nil {
		return s.fail(err) // whether the new volume or the old ones are there is not known any more
	}
	s.adopt(from, parts, target.number, list.Bytes)
	return nil
}

// copyParts writes the parts' entries into the target, in transactions of bounded size.
func (s *Store) copyParts(parts []copied, target *volume) error {
	var txn *badger.Txn
	size, count := 0, 0
	flush := func() error {
		if count == 0 {
			return nil
		}
		err := target.commit(txn)
		txn.Discard()
		size, count = 0, 0
		return err
	}
	put := func(id mq.SegmentID) func(e *mq.Entry, data []byte) error {
		return func(e *mq.Entry, data []byte) error {
			if count > 0 && (size+len(data) > groupBytes || count >= groupEntries) {
				if err := flush(); err != nil {
					return err
				}
			}
			if count == 0 {
				txn = target.db.NewTransactionAt(target.ts.Load(), true)
			}
			size += len(data)
			count++
			return txn.SetEntry(badger.NewEntry(entryKey(id, e.At), append([]byte(nil), data...)))
		}
	}
	for _, c := range parts {
		if s.Err() != nil || s.stopping() {
			return ErrClosed
		}
		if err := walkPart(&c.part, c.id, c.part.first, put(c.id)); err != nil {
			return err
		}
	}
	return flush()
}

func (s *Store) stopping() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// adopt lets the segments read from the new volume. A segment that was removed meanwhile leaves dead
// bytes in it; a part that was cut meanwhile keeps its new bounds.
func (s *Store) adopt(from []*volume, parts []copied, number uint32, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.volumeOf(number)
	v.rolled, v.listed, v.bytes = true, true, bytes
	s.volumes[number] = v
	for _, c := range parts {
		g := s.copyLocked(c.id, c.gen)
		if g == nil {
			continue
		}
		for _, p := range g.whole() {
			if p == c.old {
				p.vol.live -= p.bytes
				p.vol.parts--
				p.vol = v
				v.live += p.bytes
				v.parts++
			}
		}
	}
}
