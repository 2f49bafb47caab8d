package frame

import (
	"encoding/binary"

	"github.com/splashdam/splashdam/shared/mq"
)

// Entries carries entries of one segment from its leader, in order, with the commit position.
type Entries struct {
	Segment mq.SegmentID
	Commit  mq.Position
	Entries [][]byte // encoded mq.Entry each
}

// AppendTo appends the frame's body.
func (f *Entries) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(f.Segment))
	b = mq.AppendPosition(b, f.Commit)
	b = binary.AppendUvarint(b, uint64(len(f.Entries)))
	for _, e := range f.Entries {
		b = mq.AppendBytes(b, e)
	}
	return b
}

// Parse reads the frame's body; entries share memory with b.
func (f *Entries) Parse(b []byte) error {
	r := mq.NewReader(b)
	*f = Entries{Segment: mq.SegmentID(r.Uvarint()), Commit: r.Position()}
	f.Entries = make([][]byte, r.Count(1))
	for i := range f.Entries {
		f.Entries[i] = r.Bytes()
	}
	return r.Err()
}

// AckState says what a replica is able to do with a segment's entries.
type AckState uint8

// The states.
const (
	AckOK      AckState = iota // Tail is durable
	AckGap                     // the entry's predecessor is not the tail; send from Tail on
	AckSealed                  // sealed: nothing more is taken
	AckUnknown                 // this store does not know the segment, or its copy is damaged
	AckRefused                 // the leader is not the one in the creation record
)

// Ack is one replica's durable tail of one segment.
type Ack struct {
	Segment mq.SegmentID
	Tail    mq.Position
	State   AckState
}

// Acks carries acknowledgements of many segments and the follower's clock.
type Acks struct {
	Clock int64 // Unix nanoseconds
	Acks  []Ack
}

// AppendTo appends the frame's body.
func (f *Acks) AppendTo(b []byte) []byte {
	b = binary.AppendVarint(b, f.Clock)
	b = binary.AppendUvarint(b, uint64(len(f.Acks)))
	for _, a := range f.Acks {
		b = binary.AppendUvarint(b, uint64(a.Segment))
		b = mq.AppendPosition(b, a.Tail)
		b = append(b, byte(a.State))
	}
	return b
}

// Parse reads the frame's body.
func (f *Acks) Parse(b []byte) error {
	r := mq.NewReader(b)
	f.Clock = r.Varint()
	f.Acks = make([]Ack, r.Count(4))
	for i := range f.Acks {
		f.Acks[i] = Ack{mq.SegmentID(r.Uvarint()), r.Position(), AckState(r.Byte())}
	}
	return r.Err()
}

// Status is the heartbeat: every 200 ms on a stream between nodes, both ways, with what the machine's clock says; every 5 s to a
// gateway, with the time by which the node decides. A gateway that hears nothing while it waits for answers sends one, and gets one at once.
type Status struct {
	Clock int64 // Unix nanoseconds; 0: not known, as from a gateway
}

// AppendTo appends the frame's body.
func (f *Status) AppendTo(b []byte) []byte { return binary.AppendVarint(b, f.Clock) }

// Parse reads the frame's body.
func (f *Status) Parse(b []byte) error {
	r := mq.NewReader(b)
	f.Clock = r.Varint()
	return r.Err()
}

// Ask asks a follower for its tails of the named segments, after a stream began anew; answered with Acks.
type Ask struct {
	Segments []mq.SegmentID
}

// AppendTo appends the frame's body.
func (f *Ask) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(f.Segments)))
	for _, s := range f.Segments {
		b = binary.AppendUvarint(b, uint64(s))
	}
	return b
}

// Parse reads the frame's body.
func (f *Ask) Parse(b []byte) error {
	r := mq.NewReader(b)
	f.Segments = make([]mq.SegmentID, r.Count(1))
	for i := range f.Segments {
		f.Segments[i] = mq.SegmentID(r.Uvarint())
	}
	return r.Err()
}
