package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/splashdam/splashdam/shared/mq"
)

// Append queues entries for the committer and returns at once. Entries of one call stay together and in
// order, and behind those of earlier calls. All are queued, or none and none of their Done is called: with
// ErrBusy at the queue's bound, ErrStorageFull at the refuse watermark, ErrClosed, the store's failure, or
// an error for an entry that is not what its Append says.
func (s *Store) Append(appends ...Append) error {
	for i := range appends {
		if err := checkAppend(&appends[i]); err != nil {
			return err
		}
	}
	if err := s.Err(); err != nil {
		return err
	}
	if s.space.full() {
		return ErrStorageFull
	}
	return s.queue.push(appends)
}

// checkAppend compares an append with the header of its entry; the CRC is the maker's.
func checkAppend(a *Append) error {
	if len(a.Data) > MaxEntryBytes {
		return fmt.Errorf("store: entry of %d bytes is above the limit of %d", len(a.Data), MaxEntryBytes)
	}
	e, err := mq.ParseEntryHeader(a.Data)
	if err != nil {
		return fmt.Errorf("store: append: %w", err)
	}
	if e.Segment != a.Segment || e.At != a.At || e.Next() != a.Next {
		return fmt.Errorf("store: append of segment %d %s..%s holds the entry of segment %d %s..%s",
			a.Segment, a.At, a.Next, e.Segment, e.At, e.Next())
	}
	return nil
}

// Waited is how long the oldest entry has waited that is queued or being committed, 0 if there is none.
func (s *Store) Waited() time.Duration { return s.queue.waited(time.Now()) }

// commitLoop is the committer: the one goroutine that writes entries. It ends when the queue is closed
// and empty.
func (s *Store) commitLoop() {
	c := &committer{s: s, staged: map[mq.SegmentID]*stagedPart{}}
	var group []job
	for {
		group = s.queue.take(group[:0])
		if len(group) == 0 {
			return
		}
		if group[0].step != nil {
			group[0].step(s.Err())
		} else {
			c.commit(group)
		}
		s.queue.done(group)
		clear(group)
	}
}

// inOrder runs f on the committer's goroutine, behind every append queued before the call, and returns its
// error. f may take Store.mu.
func (s *Store) inOrder(f func() error) error {
	done := make(chan error, 1)
	if err := s.queue.pushStep(func(err error) {
		if err == nil {
			err = f()
		}
		done <- err
	}); err != nil {
		return err
	}
	return <-done
}

// committer holds what the commit loop uses again.
type committer struct {
	s      *Store
	staged map[mq.SegmentID]*stagedPart
	errs   []error
}

// stagedPart is what a transaction adds to a segment, on top of what is synced.
type stagedPart struct {
	segment *segment
	into    *segment // the same one if it is a replacement, else nil
	tail    mq.Position
	last    mq.Position
	empty   bool
	add     part
}

// commit writes a group as one transaction and answers it. The order is: everything synced, then the
// segments' tails move, then Done.
func (c *committer) commit(group []job) {
	s := c.s
	err := s.Err()
	if err == nil && s.space.full() {
		err = ErrStorageFull // checked before each group: a full disk kills a process with mapped files
	}
	c.errs = c.errs[:0]
	for range group {
		c.errs = append(c.errs, err)
	}
	if err == nil {
		if err = c.write(group); err != nil {
			if !errors.Is(err, ErrStorageFull) {
				s.fail(err)
			}
			for i := range c.errs {
				c.errs[i] = err
			}
		}
	}
	for i := range group {
		if c.errs[i] != nil {
			s.metrics.refused.Inc()
		}
		if done := group[i].entry.Done; done != nil {
			done(c.errs[i])
		}
	}
}

// write commits and publishes; c.errs gets the refusals of single entries. An error but
// ErrStorageFull is the store's end.
func (c *committer) write(group []job) error {
	s := c.s
	if err := s.roll(false); err != nil {
		return err
	}
	clear(c.staged)
	v := s.active
	txn := v.db.NewTransactionAt(v.ts.Load(), true)
	defer txn.Discard()
	var bytes, entries int64
	for i := range group {
		a := &group[i].entry
		if c.errs[i] = c.stage(a); c.errs[i] != nil {
			continue
		}
		if err := txn.SetEntry(badger.NewEntry(entryKey(a.Segment, a.At), a.Data)); err != nil {
			return fmt.Errorf("store: building a transaction: %w", err)
		}
		bytes += int64(len(a.Data))
		entries++
	}
	if entries == 0 {
		return nil
	}
	start := time.Now()
	if s.cfg.BeforeSync != nil {
		s.cfg.BeforeSync(bytes)
	}
	if err := v.commit(txn); err != nil {
		return err
	}
	s.metrics.committed(time.Since(start), entries, bytes)
	tables := v.tables
	if v.uncounted += int(entries); v.uncounted >= tablesEvery {
		tables, v.uncounted = tablesOf(v.db), 0
	}
	c.publish(v, bytes, tables)
	return nil
}

// commit makes a transaction durable at the next timestamp. A nil error means that value log, WAL and
// their names are synced and that Badger has logged no error.
func (v *volume) commit(txn *badger.Txn) error {
	ts := v.ts.Load() + 1
	if err := txn.CommitAt(ts, nil); err != nil {
		return fmt.Errorf("store: commit: %w", err)
	}
	if err := v.syncNames(); err != nil {
		return err
	}
	if err := v.log.err(); err != nil {
		return err
	}
	v.ts.Store(ts)
	return nil
}

// stage checks an entry against its segment as the transaction will leave it, and takes it in.
func (c *committer) stage(a *Append) error {
	st := c.staged[a.Segment]
	if st == nil {
		var err error
		if st, err = c.s.stagedFor(a); err != nil {
			return err
		}
	}
	if st.into != a.into {
		return fmt.Errorf("%w: %s is being replaced", ErrDamaged, &st.segment.facts.segment)
	}
	e, err := mq.ParseEntryHeader(a.Data)
	if err != nil {
		return err
	}
	g := st.segment
	switch end := g.facts.end; {
	case end != nil && end.Before(e.Next()):
		return fmt.Errorf("%w: entry %s..%s is beyond the end %s", ErrSealed, e.At, e.Next(), end)
	case end == nil && g.facts.seal:
		return ErrSealed
	case e.At != st.tail:
		return fmt.Errorf("%w: segment %d is at %s, the entry at %s", ErrOutOfOrder, a.Segment, st.tail, e.At)
	case !st.empty && e.Prev != st.last:
		return fmt.Errorf("%w: segment %d has its last entry at %s, the entry names %s", ErrOutOfOrder, a.Segment, st.last, e.Prev)
	}
	st.tail, st.last, st.empty = e.Next(), e.At, false
	st.add.add(&e, len(a.Data), entrySum(a.Data))
	c.staged[a.Segment] = st
	return nil
}

// stagedFor looks a segment up for the first entry of a transaction.
func (s *Store) stagedFor(a *Append) (*stagedPart, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := a.into
	if g == nil {
		g = s.segments[a.Segment]
	}
	switch {
	case g == nil || g.absent:
		return nil, fmt.Errorf("%w: %d", ErrUnknownSegment, a.Segment)
	case g.damaged:
		return nil, fmt.Errorf("%w: %s", ErrDamaged, &g.facts.segment)
	}
	return &stagedPart{segment: g, into: a.into, tail: g.tail, last: g.last, empty: g.count == 0}, nil
}

// publish moves the tails: from here on reads see the entries.
func (c *committer) publish(v *volume, bytes int64, tables int) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	v.bytes += bytes
	v.tables = tables
	for id, st := range c.staged {
		g, add := st.segment, &st.add
		if add.count == 0 {
			continue
		}
		p := s.activeParts[id]
		if p == nil {
			p = &part{vol: v, first: add.first, firstStamp: add.firstStamp}
			s.activeParts[id] = p
			s.activeSeen[id] = struct{}{}
			g.parts = append(g.parts, p)
			v.parts++
		}
		p.last, p.next, p.lastStamp = add.last, add.next, add.lastStamp
		p.count += add.count
		p.bytes += add.bytes
		p.sum += add.sum
		v.live += add.bytes
		g.tail, g.last, g.lastStamp = add.next, add.last, add.lastStamp
		g.count += add.count
		g.bytes += add.bytes
		g.sum += add.sum
		if st.into == nil { // the ledger is told of a replacement when it stands in for the old copy
			s.moved[id] = struct{}{}
		}
	}
	poke(s.pokeLedger)
}
