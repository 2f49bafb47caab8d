package archive

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"gocloud.dev/gcerrors"

	derived "github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/shared/mq"
)

// An object: magic | entries, each with its length (4) before it | footer, as JSON | tail. The tail: length of the footer (8) |
// its CRC (4) | CRC of all before the footer (4) | magic (8). Numbers are big endian, CRCs are CRC-32C. Entries are
// as they are in the segment, with their own CRC.
const (
	magic    = "SPDARCH1"
	tailSize = 24
	// blockBytes is how much lies between two places of the footer's index, about: a read takes at least that.
	blockBytes = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// footer says what the object holds and where.
type footer struct {
	Cluster   string         `json:"cluster"`
	Topic     string         `json:"topic"`
	Partition mq.PartitionID `json:"partition"`
	Segment   mq.SegmentID   `json:"segment"`
	Number    uint64         `json:"number"`
	Base      mq.Position    `json:"base"`
	End       mq.Position    `json:"end"`
	LastStamp int64          `json:"last_stamp"`
	Entries   int            `json:"entries"`
	Blocks    []block        `json:"blocks"`
	// Leader, Replicas and Quorum are those that the segment had, for the trace.
	Leader   mq.Incarnation `json:"leader"`
	Replicas []mq.Replica   `json:"replicas,omitempty"`
	Quorum   int            `json:"quorum"`
	// Index are parts of a footer (package footer) with what tells which entries name which message. Without it all must be read.
	Index []byte `json:"index,omitempty"`
}

// block is entries in a row.
type block struct {
	Offset uint64 `json:"offset"` // of the first entry
	Seq    uint32 `json:"seq"`
	Stamp  int64  `json:"stamp"` // of the last entry
	At     int64  `json:"at"`    // in the object
	Bytes  int64  `json:"bytes"`
	// Schedules are the numbers of the schedules that its entries are about, see appendNumbers; with AnySchedule they may be about any.
	Schedules   []byte `json:"schedules,omitempty"`
	AnySchedule bool   `json:"any_schedule,omitempty"`
}

// Upload puts a sealed segment into the bucket unless it is there, and reads it back. Only when it returns no error may the
// segment be removed elsewhere. walk gives the segment's entries in order.
func (a *Archive) Upload(ctx context.Context, topic string, s *mq.Segment, walk func(ctx context.Context, f func(*mq.Entry) error) error) (Object, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadWait)
	defer cancel()
	o := Object{Key: a.key(s), Segment: s.ID, Number: s.Number, Base: s.Base, End: s.DataEnd()}
	attributes, err := a.bucket.Attributes(ctx, o.Key)
	if err == nil {
		o.Size = attributes.Size
		if a.verify(ctx, &o) == nil {
			return o, nil // by an earlier leader, or before a restart
		}
	} else if gcerrors.Code(err) != gcerrors.NotFound {
		return o, unavailable("looking into the archive", err)
	}
	f := &footer{Cluster: a.cluster, Topic: topic, Partition: s.Partition, Segment: s.ID, Number: s.Number, Base: s.Base, End: o.End,
		Leader: s.Leader, Replicas: s.Replicas, Quorum: s.Quorum}
	if o.Size, err = a.write(ctx, o.Key, f, walk); err != nil {
		return o, err
	}
	return o, a.verify(ctx, &o)
}

// write makes the object. One that did not become whole never has its name.
func (a *Archive) write(ctx context.Context, key string, f *footer, walk func(context.Context, func(*mq.Entry) error) error) (int64, error) {
	t := a.transfer(ctx, key)
	w := &writer{out: t, footer: f, index: derived.NewBuilder(f.Segment, f.Base)}
	err := w.put([]byte(magic))
	if err == nil {
		err = walk(ctx, w.entry)
	}
	if err == nil && w.next != f.End {
		err = fmt.Errorf("the entries of segment %d end at %s, not at %s", f.Segment, w.next, f.End)
	}
	if err == nil {
		err = w.finish()
	}
	if err := t.end(ctx, err); err != nil {
		return 0, unavailable("writing to the archive", err)
	}
	return w.at, nil
}

// writer writes an object and gathers its footer.
type writer struct {
	out    io.Writer
	footer *footer
	at     int64
	crc    uint32
	next   mq.Position
	buf    []byte
	index  *derived.Builder // nil once it met records that it can't read

	numbers  []uint64 // schedules that the last block is about
	unlisted bool     // and others that could not be read
	listed   int      // bytes of the lists of all blocks
}

func (w *writer) put(b []byte) error {
	n, err := w.out.Write(b)
	w.crc = crc32.Update(w.crc, castagnoli, b[:n])
	w.at += int64(n)
	return err
}

// entry appends an entry.
func (w *writer) entry(e *mq.Entry) error {
	f := w.footer
	if f.Entries == 0 && e.At != f.Base || f.Entries > 0 && e.At != w.next || e.Segment != f.Segment {
		return fmt.Errorf("%w: entry %s of segment %d does not follow on %s", mq.ErrCorrupt, e.At, e.Segment, w.next)
	}
	w.buf = e.AppendTo(append(w.buf[:0], 0, 0, 0, 0))
	binary.BigEndian.PutUint32(w.buf, uint32(len(w.buf)-4))
	if n := len(f.Blocks); n == 0 || f.Blocks[n-1].Bytes >= blockBytes {
		w.listNumbers()
		f.Blocks = append(f.Blocks, block{Offset: e.At.Offset, Seq: e.At.Seq, At: w.at})
	}
	b := &f.Blocks[len(f.Blocks)-1]
	b.Stamp = e.Stamp
	b.Bytes += int64(len(w.buf))
	f.LastStamp, w.next = e.Stamp, e.Next()
	f.Entries++
	w.note(e)
	w.gatherNumbers(e)
	return w.put(w.buf)
}

// note adds an entry to the index.
func (w *writer) note(e *mq.Entry) {
	if w.index == nil {
		return
	}
	if err := w.index.Add(e, len(w.buf)); err != nil {
		w.index, w.footer.Index = nil, nil
	} else if w.index.Full() {
		w.footer.Index = append(w.footer.Index, w.index.NextIndex()...)
	}
}

// finish writes footer and tail.
func (w *writer) finish() error {
	w.listNumbers()
	if w.index != nil {
		w.footer.Index = append(w.footer.Index, w.index.NextIndex()...)
	}
	text, err := json.Marshal(w.footer)
	if err != nil {
		return err
	}
	tail := binary.BigEndian.AppendUint64(nil, uint64(len(text)))
	tail = binary.BigEndian.AppendUint32(tail, crc32.Checksum(text, castagnoli))
	tail = binary.BigEndian.AppendUint32(tail, w.crc)
	return errors.Join(w.put(text), w.put(append(tail, magic...)))
}
