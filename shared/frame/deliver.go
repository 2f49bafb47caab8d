package frame

import (
	"encoding/binary"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Receive asks the leader for up to Max ready messages of a group, with a lease each.
type Receive struct {
	Partition mq.PartitionID
	Group     mq.GroupID
	Max       uint32
	MaxBytes  uint32
	Lease     int64 // nanoseconds; 0: the group's setting
	Consumer  string
	// Handover is the gateway's number of this hand-over, unique on its stream; Confirm or Return names it.
	Handover uint64
	// Account is whose credit the leases use up, a number of the gateway; the leader tells Freed when they end. 0 for nobody's.
	Account uint64
	// Member is who receives in a group whose partitions have owners, "" in others; Generation is the assignment by
	// which the gateway takes it for the partition's owner.
	Member     string
	Generation uint64
}

// AppendTo appends the frame's body.
func (f *Receive) AppendTo(b []byte) []byte {
	b = mq.AppendPartition(b, f.Partition)
	b = binary.AppendUvarint(b, uint64(f.Group))
	b = binary.AppendUvarint(b, uint64(f.Max))
	b = binary.AppendUvarint(b, uint64(f.MaxBytes))
	b = binary.AppendVarint(b, f.Lease)
	b = mq.AppendBytes(b, f.Consumer)
	b = binary.AppendUvarint(b, f.Handover)
	b = binary.AppendUvarint(b, f.Account)
	b = mq.AppendBytes(b, f.Member)
	return binary.AppendUvarint(b, f.Generation)
}

// Parse reads the frame's body.
func (f *Receive) Parse(b []byte) error {
	r := mq.NewReader(b)
	*f = Receive{Partition: r.Partition(), Group: mq.GroupID(r.Uvarint()), Max: r.Uint32(), MaxBytes: r.Uint32(),
		Lease: r.Varint(), Consumer: r.String(), Handover: r.Uvarint(), Account: r.Uvarint(),
		Member: r.String(), Generation: r.Uvarint()}
	return r.Err()
}

// Run is a range of messages that were leased together: offset First+i has the lease counter Counter+i.
type Run struct {
	First   uint64
	Count   uint32
	Attempt uint32
	Counter uint64
}

// Received is the answer to Receive. The messages in Chunks are exactly those in Runs, both by offset
// ascending within a chunk; Ready is how many more could be had now.
type Received struct {
	Generation uint64
	Segment    uint64 // number, for receipts and fences
	LeaseUntil int64  // Unix nanoseconds
	Ready      uint64
	Runs       []Run
	Chunks     []Chunk
}

// Chunk is messages of one stored batch. First is the offset of the batch's ordinal 0 as stored. With
// no Ordinals all messages of the batch are meant. With Ordinals and Sliced the batch holds just those, in that
// order; not Sliced (a compressed batch) it holds all of the stored ones.
type Chunk struct {
	First    uint64
	Stamp    int64
	Sliced   bool
	Ordinals []uint32
	// Numbers are the schedule numbers of the messages that are meant, in their order; empty for messages that were
	// not scheduled.
	Numbers []uint64
	Batch   []byte
}

// ID is the id of message i (of those that are meant) of a chunk, which has the offset.
func (c *Chunk) ID(p mq.PartitionID, i int, offset uint64) mq.MessageID {
	if i < len(c.Numbers) {
		return mq.MessageID{Partition: p, Scheduled: true, Number: c.Numbers[i]}
	}
	return mq.MessageID{Partition: p, Number: offset}
}

func appendChunks(b []byte, chunks []Chunk) []byte {
	b = binary.AppendUvarint(b, uint64(len(chunks)))
	for i := range chunks {
		c := &chunks[i]
		b = binary.AppendUvarint(b, c.First)
		b = binary.AppendVarint(b, c.Stamp)
		sliced := byte(0)
		if c.Sliced {
			sliced = 1
		}
		b = append(b, sliced)
		b = binary.AppendUvarint(b, uint64(len(c.Ordinals)))
		for _, o := range c.Ordinals {
			b = binary.AppendUvarint(b, uint64(o))
		}
		b = binary.AppendUvarint(b, uint64(len(c.Numbers)))
		for _, n := range c.Numbers {
			b = binary.AppendUvarint(b, n)
		}
		b = mq.AppendBytes(b, c.Batch)
	}
	return b
}

func parseChunks(r *mq.Reader) []Chunk {
	chunks := make([]Chunk, r.Count(6))
	for i := range chunks {
		c := &chunks[i]
		c.First, c.Stamp, c.Sliced = r.Uvarint(), r.Varint(), r.Byte() == 1
		if n := r.Count(1); n > 0 {
			c.Ordinals = make([]uint32, n)
			for j := range c.Ordinals {
				c.Ordinals[j] = r.Uint32()
			}
		}
		if n := r.Count(1); n > 0 {
			c.Numbers = make([]uint64, n)
			for j := range c.Numbers {
				c.Numbers[j] = r.Uvarint()
			}
		}
		c.Batch = r.Bytes()
	}
	return chunks
}

// AppendTo appends the frame's body.
func (f *Received) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, f.Generation)
	b = binary.AppendUvarint(b, f.Segment)
	b = binary.AppendVarint(b, f.LeaseUntil)
	b = binary.AppendUvarint(b, f.Ready)
	b = binary.AppendUvarint(b, uint64(len(f.Runs)))
	for _, n := range f.Runs {
		b = binary.AppendUvarint(b, n.First)
		b = binary.AppendUvarint(b, uint64(n.Count))
		b = binary.AppendUvarint(b, uint64(n.Attempt))
		b = binary.AppendUvarint(b, n.Counter)
	}
	return appendChunks(b, f.Chunks)
}

// Parse reads the frame's body; batches share memory with b.
func (f *Received) Parse(b []byte) error {
	r := mq.NewReader(b)
	*f = Received{Generation: r.Uvarint(), Segment: r.Uvarint(), LeaseUntil: r.Varint(), Ready: r.Uvarint()}
	f.Runs = make([]Run, r.Count(4))
	for i := range f.Runs {
		f.Runs[i] = Run{First: r.Uvarint(), Count: r.Uint32(), Attempt: r.Uint32(), Counter: r.Uvarint()}
	}
	f.Chunks = parseChunks(r)
	return r.Err()
}

// Handover names a hand-over, or with Offsets a part of it, to confirm or to return uncounted.
type Handover struct {
	Partition mq.PartitionID
	Group     mq.GroupID
	Handover  uint64
	Offsets   []uint64 // empty: all of it
}

// AppendTo appends the frame's body.
func (f *Handover) AppendTo(b []byte) []byte {
	b = mq.AppendPartition(b, f.Partition)
	b = binary.AppendUvarint(b, uint64(f.Group))
	b = binary.AppendUvarint(b, f.Handover)
	b = binary.AppendUvarint(b, uint64(len(f.Offsets)))
	for _, o := range f.Offsets {
		b = binary.AppendUvarint(b, o)
	}
	return b
}

// Parse reads the frame's body.
func (f *Handover) Parse(b []byte) error {
	r := mq.NewReader(b)
	*f = Handover{Partition: r.Partition(), Group: mq.GroupID(r.Uvarint()), Handover: r.Uvarint()}
	if n := r.Count(1); n > 0 {
		f.Offsets = make([]uint64, n)
		for i := range f.Offsets {
			f.Offsets[i] = r.Uvarint()
		}
	}
	return r.Err()
}

// Outcome is what a consumer says about a delivery.
type Outcome uint8

// The outcomes.
const (
	OutcomeAck Outcome = iota + 1
	OutcomeNack
	OutcomeReject
	OutcomeExtend
	OutcomeRelease
	// OutcomePostpone is a Nack whose attempt does not count; for gateways that know that it was not the message's
	// fault, never for users.
	OutcomePostpone
)

// Settle settles deliveries of one partition.
type Settle struct {
	Partition mq.PartitionID
	Items     []SettleItem
}

// SettleItem is one receipt (binary form, not verified by the gateway) and what to do with it.
type SettleItem struct {
	Receipt []byte
	Outcome Outcome
	Delay   int64  // Nack, Postpone: nanoseconds until the retry, -1 for the group's back-off. Extend: the new lease from now.
	Reason  string // for the trace; of an Ack, too
}

// AppendTo appends the frame's body.
func (f *Settle) AppendTo(b []byte) []byte {
	b = mq.AppendPartition(b, f.Partition)
	b = binary.AppendUvarint(b, uint64(len(f.Items)))
	for i := range f.Items {
		it := &f.Items[i]
		b = mq.AppendBytes(b, it.Receipt)
		b = append(b, byte(it.Outcome))
		b = binary.AppendVarint(b, it.Delay)
		b = mq.AppendBytes(b, it.Reason)
	}
	return b
}

// Parse reads the frame's body; receipts share memory with b.
func (f *Settle) Parse(b []byte) error {
	r := mq.NewReader(b)
	*f = Settle{Partition: r.Partition()}
	f.Items = make([]SettleItem, r.Count(4))
	for i := range f.Items {
		f.Items[i] = SettleItem{Receipt: r.Bytes(), Outcome: Outcome(r.Byte()), Delay: r.Varint(), Reason: r.String()}
		if o := f.Items[i].Outcome; o < OutcomeAck || o > OutcomePostpone {
			r.Fail("settle outcome %d", o)
		}
	}
	return r.Err()
}

// Settled answers a Settle, a code per item in its order.
type Settled struct {
	Codes []mqerr.Code
	Until []int64 // Extend: the lease's new end, Unix nanoseconds; 0 for other outcomes. As long as Codes.
}

// AppendTo appends the frame's body.
func (f *Settled) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(f.Codes)))
	for i, c := range f.Codes {
		b = binary.AppendUvarint(b, uint64(c))
		b = binary.AppendVarint(b, f.Until[i])
	}
	return b
}

// Parse reads the frame's body.
func (f *Settled) Parse(b []byte) error {
	r := mq.NewReader(b)
	n := r.Count(2)
	*f = Settled{Codes: make([]mqerr.Code, n), Until: make([]int64, n)}
	for i := range n {
		f.Codes[i], f.Until[i] = mqerr.Code(r.Uint32()), r.Varint()
	}
	return r.Err()
}

// Where says how a Read names its places.
type Where uint8

// The places. Earliest and Latest are the first kept and the next committed offset.
const (
	AtOffset Where = iota + 1
	AtTime         // Unix nanoseconds; the first message whose stamp is not less
	Earliest
	Latest
)

// Place is an offset or a time.
type Place struct {
	Where Where
	Value uint64
}

// Read asks for committed messages without a group: those from From (inclusive) up to To (exclusive).
// Backward reads from To downwards and answers the newest first.
type Read struct {
	Partition mq.PartitionID
	From, To  Place
	Limit     uint32
	MaxBytes  uint32
	Backward  bool
	Archived  bool // what is in the archive too
	// Sealed may be asked of any replica: it answers from the sealed segments, with EndUnknown as the end, and NoLeader
	// where only the leader can.
	Sealed bool
}

// EndUnknown is the End of a ReadDone that no leader gave: more may follow.
const EndUnknown = 1 << 62

// The flags of a Read.
const (
	readBackward = 1 << iota
	readArchived
	readSealed
)

// AppendTo appends the frame's body.
func (f *Read) AppendTo(b []byte) []byte {
	b = mq.AppendPartition(b, f.Partition)
	for _, p := range [...]Place{f.From, f.To} {
		b = append(b, byte(p.Where))
		b = binary.AppendUvarint(b, p.Value)
	}
	b = binary.AppendUvarint(b, uint64(f.Limit))
	b = binary.AppendUvarint(b, uint64(f.MaxBytes))
	flags := byte(0)
	if f.Backward {
		flags |= readBackward
	}
	if f.Archived {
		flags |= readArchived
	}
	if f.Sealed {
		flags |= readSealed
	}
	return append(b, flags)
}

// Parse reads the frame's body.
func (f *Read) Parse(b []byte) error {
	r := mq.NewReader(b)
	*f = Read{Partition: r.Partition()}
	for _, p := range [...]*Place{&f.From, &f.To} {
		*p = Place{Where(r.Byte()), r.Uvarint()}
		if p.Where < AtOffset || p.Where > Latest {
			r.Fail("place %d", p.Where)
		}
	}
	f.Limit, f.MaxBytes = r.Uint32(), r.Uint32()
	flags := r.Byte()
	f.Backward, f.Archived, f.Sealed = flags&readBackward != 0, flags&readArchived != 0, flags&readSealed != 0
	if flags > readBackward|readArchived|readSealed {
		r.Fail("flags %#x of a read", flags)
	}
	return r.Err()
}

// ReadDone is the answer to Read. Chunks are by offset ascending (also within a chunk); a backward read's
// caller walks them from the end. Next is where to go on: the offset after the last one answered
// (backward: the lowest one answered).
type ReadDone struct {
	First  uint64 // the first kept offset of the partition
	End    uint64 // the next committed offset of the partition
	Next   uint64
	Chunks []Chunk
}

// AppendTo appends the frame's body.
func (f *ReadDone) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, f.First)
	b = binary.AppendUvarint(b, f.End)
	b = binary.AppendUvarint(b, f.Next)
	return appendChunks(b, f.Chunks)
}

// Parse reads the frame's body; batches share memory with b.
func (f *ReadDone) Parse(b []byte) error {
	r := mq.NewReader(b)
	*f = ReadDone{First: r.Uvarint(), End: r.Uvarint(), Next: r.Uvarint(), Chunks: parseChunks(r)}
	return r.Err()
}
