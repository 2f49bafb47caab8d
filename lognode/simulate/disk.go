package simulate

import (
	"errors"
	"fmt"
	"sort"

	"github.com/splashdam/splashdam/shared/mq"
)

// errDisk is what a failed sync answers. It is never retried: the disk stays failed until the next start.
var errDisk = errors.New("simulate: the sync failed")

// maxPending bounds the writes that wait for a sync; beyond it the disk says that it is busy.
const maxPending = 200

// Stored is what a disk has of one segment. Everything in it is durable.
type Stored struct {
	Segment mq.Segment
	Entries []Written
	Tail    mq.Position
	Last    mq.Position // of the last entry
	Flag    bool        // sealed
	End     *mq.Position
	Damaged bool
	mark    mq.Position // the ledger's word on the tail
	found   bool        // the next start finds what is broken, else a reader does
	vague   bool        // a start missed its end, which is not known any more for as long as it is there
	claim   *mq.Position
	intact  *mq.Position // of a damaged one, up to where it is whole from its base on; nil until somebody looks
}

// Written is one entry as it was given to the disk; Data may have changed since.
type Written struct {
	At, Next mq.Position
	Data     []byte
}

// write waits for a sync: apply makes it durable, done tells its owner.
type write struct {
	apply func() error
	done  func(error)
	came  int64
}

// Disk is one store: what is durable, and what waits to be.
type Disk struct {
	Store mq.StoreID
	Boot  uint64
	// Restored counts damaged copies of open segments that became what they were.
	Restored int

	segments map[mq.SegmentID]*Stored
	ids      []mq.SegmentID // in the order of creation
	named    map[mq.PartitionID]mq.Named
	gaveUp   map[mq.SegmentID]bool // of which a damaged copy was removed
	pending  []write
	syncing  int // how many of pending the sync under way covers
	failed   bool
	host     *Host
}

// NewDisk is an empty directory with a new store id.
func NewDisk(id mq.StoreID) *Disk {
	return &Disk{Store: id, segments: map[mq.SegmentID]*Stored{}, named: map[mq.PartitionID]mq.Named{}, gaveUp: map[mq.SegmentID]bool{}}
}

// Segments are all copies, in the order of creation. They may be looked at, for checks, and not changed.
func (d *Disk) Segments() []*Stored {
	out := make([]*Stored, 0, len(d.ids))
	for _, id := range d.ids {
		if s := d.segments[id]; s != nil {
			out = append(out, s)
		}
	}
	return out
}

// raise keeps what was seen named, if it is more than before.
func (d *Disk) raise(p mq.PartitionID, n mq.Named) {
	if d.named[p].Less(n) {
		d.named[p] = n
	}
}

// Failed says whether a sync has failed since the start.
func (d *Disk) Failed() bool { return d.failed }

// Crash ends what waits: the first keep writes reached the disk, the others did not, and nobody is told.
func (d *Disk) Crash(keep int) {
	for i, w := range d.pending {
		if i < keep && !d.failed {
			_ = w.apply() // nobody is told
		}
	}
	d.pending, d.syncing, d.failed, d.host = nil, 0, false, nil
}

// Waiting is how many writes a crash could take.
func (d *Disk) Waiting() int { return len(d.pending) }

// Flip changes one byte of the k-th entry from the end of a segment; false if there is none.
func (s *Stored) Flip(k, at int) bool {
	i := len(s.Entries) - 1 - k
	if i < 0 {
		return false
	}
	b := append([]byte(nil), s.Entries[i].Data...)
	b[5+at%(len(b)-5)] ^= 0x10
	s.Entries[i].Data, s.intact = b, nil
	return true
}

// Broken says whether the copy is damaged, or a start will find it so.
func (s *Stored) Broken() bool { return s.Damaged || s.found }

// Find has the next start find what is broken in the copy.
func (s *Stored) Find() { s.found = true }

// LoseSuffix takes the last entry away without a word, as a store does that cuts a damaged log at its start.
func (s *Stored) LoseSuffix() bool {
	n := len(s.Entries)
	if n == 0 {
		return false
	}
	s.Entries, s.Tail, s.intact = s.Entries[:n-1], s.Last, nil
	if s.Last = s.Segment.Base; n > 1 {
		s.Last = s.Entries[n-2].At
	}
	return true
}

// start raises the boot number and looks at what is there: a tail below the ledger's word is damage (R3). Of an open segment's
// damaged copy it tells how far that reached, as store.Claim does.
func (d *Disk) start(h *Host) {
	d.Boot++
	d.host = h
	for _, s := range d.segments {
		short := s.Tail.Before(s.mark) && !h.Mutation.IgnoreUnknown
		s.vague = s.vague || short
		s.Damaged = s.Damaged || short || s.found
		if s.found, s.claim = false, nil; s.Damaged && !s.vague && s.End == nil && s.endsIntact() {
			reached := s.Tail
			s.claim = &reached
		}
		if s.mark = s.Tail; h.Mutation.ForgetSealFlag {
			s.Flag = false
		}
	}
}

// add queues a write; false if the queue is full.
func (d *Disk) add(apply func() error, done func(error)) bool {
	if len(d.pending) >= maxPending {
		return false
	}
	d.pending = append(d.pending, write{apply, done, d.host.Steady()})
	d.pump()
	return true
}

func (d *Disk) pump() {
	if d.syncing > 0 || len(d.pending) == 0 {
		return
	}
	d.syncing = len(d.pending)
	took, ok := d.host.Sync()
	d.host.After(took, func() {
		batch := d.pending[:d.syncing]
		d.pending, d.syncing = d.pending[d.syncing:], 0
		d.failed = d.failed || !ok
		for _, w := range batch {
			if d.failed {
				w.done(errDisk)
				continue
			}
			w.done(w.apply())
		}
		d.pump()
	})
}

// waited is how long the oldest write has waited.
func (d *Disk) waited(now int64) int64 {
	if len(d.pending) == 0 {
		return 0
	}
	return now - d.pending[0].came
}

// append queues an entry.
func (d *Disk) append(id mq.SegmentID, e *mq.Entry, data []byte, done func(error)) bool {
	at, next := e.At, e.Next()
	fault := d.host.Fault
	early := d.host.Mutation.AckBeforeSync
	said := func(err error) {
		if !early {
			done(err)
		}
	}
	ok := d.add(func() error { return d.put(id, at, next, data, fault) }, said)
	if ok && early {
		d.host.After(0, func() { done(nil) })
	}
	return ok
}

func (d *Disk) put(id mq.SegmentID, at, next mq.Position, data []byte, fault func(error)) error {
	s := d.segments[id]
	switch {
	case s == nil || s.Damaged:
		return fmt.Errorf("segment %d is not here", id)
	case s.End != nil && s.End.Before(next) || at.Before(s.Tail):
	case at != s.Tail:
		fault(fmt.Errorf("store %s: an entry at %s of segment %d behind the tail %s", d.Store, at, id, s.Tail))
	default:
		s.Entries = append(s.Entries, Written{at, next, data})
		s.Last, s.Tail, s.mark = at, next, next
	}
	return nil
}

// cut makes a decided end durable and removes what is beyond it.
func (s *Stored) cut(end mq.Position) {
	s.End = &end
	for len(s.Entries) > 0 && end.Before(s.Tail) {
		s.LoseSuffix()
	}
	if end.Before(s.mark) {
		s.mark = end
	}
	if s.Damaged && s.upTo() == end { // what was broken lay behind it
		s.Damaged = false
	}
}

// endsIntact says whether the last entry is there as it was written.
func (s *Stored) endsIntact() bool {
	if len(s.Entries) == 0 {
		return false
	}
	_, err := mq.ParseEntry(s.Entries[len(s.Entries)-1].Data)
	return err == nil
}

// upTo is store.Intact: up to where a copy is whole from its base on.
func (s *Stored) upTo() mq.Position {
	switch {
	case !s.Damaged:
		return s.Tail
	case s.intact == nil:
		at := s.Segment.Base
		for _, w := range s.Entries {
			if _, err := mq.ParseEntry(w.Data); err != nil || w.At != at {
				break
			}
			at = w.Next
		}
		s.intact = &at
	}
	return *s.intact
}

// scan calls f with the entries of a segment from a position on, up to one whose CRC is wrong, which makes the copy
// damaged.
func (d *Disk) scan(id mq.SegmentID, from mq.Position, f func(e *mq.Entry, data []byte) bool) error {
	s := d.segments[id]
	if s == nil {
		return fmt.Errorf("segment %d is not here", id)
	}
	k := sort.Search(len(s.Entries), func(k int) bool { return !s.Entries[k].At.Before(from) })
	for _, w := range s.Entries[k:] {
		e, err := mq.ParseEntry(w.Data)
		if err != nil {
			s.Damaged = true
			return err
		}
		if !f(&e, w.Data) {
			return nil
		}
	}
	return nil
}

// resident says whether this disk can serve a sealed segment by itself.
func (d *Disk) resident(s *mq.Segment) bool {
	x := d.segments[s.ID]
	return x != nil && !x.upTo().Before(s.DataEnd())
}

// holding reads the entries with the messages from one offset to another, if all of them are here.
func (d *Disk) holding(list []mq.Segment, first, last uint64) (out []mq.Entry, ok bool) {
	for i := range list {
		s := d.segments[list[i].ID]
		if !d.resident(&list[i]) {
			return nil, false
		}
		k := sort.Search(len(s.Entries), func(k int) bool { return s.Entries[k].Next.Offset > first })
		for ; k < len(s.Entries) && s.Entries[k].At.Offset < last && s.Entries[k].At.Before(list[i].End); k++ {
			e, err := mq.ParseEntry(s.Entries[k].Data)
			if err != nil {
				s.Damaged = true
				return nil, false
			}
			out = append(out, e)
		}
	}
	return out, true
}
