package frame

import (
	"encoding/binary"

	"github.com/splashdam/splashdam/shared/mq"
)

// Schedule asks the leader to keep one batch (mq.Batch, not compressed, so that the leader can take it apart) until
// each of its messages is due. Times has one for each message: above 0 when it is due (Unix nanoseconds), below 0
// how long from now by the leader's clock.
type Schedule struct {
	Partition mq.PartitionID
	Route     uint64
	Times     []int64
	Batch     []byte
}

// AppendTo appends the frame's body.
func (s *Schedule) AppendTo(b []byte) []byte {
	b = mq.AppendPartition(b, s.Partition)
	b = binary.AppendUvarint(b, s.Route)
	b = appendTimes(b, s.Times)
	return mq.AppendBytes(b, s.Batch)
}

// Parse reads the frame's body; Batch shares memory with b.
func (s *Schedule) Parse(b []byte) error {
	r := mq.NewReader(b)
	*s = Schedule{Partition: r.Partition(), Route: r.Uvarint(), Times: parseTimes(r)}
	s.Batch = r.Bytes()
	return r.Err()
}

// Scheduled says that a batch is committed: its messages have the schedule numbers from First on, and are due at
// Dues (Unix nanoseconds).
type Scheduled struct {
	First uint64
	Stamp int64   // Unix nanoseconds
	Dues  []int64 // of those that are not in Repeats
	// Repeats are in the order of the batch: see Appended.
	Repeats []Repeat
}

// AppendTo appends the frame's body.
func (s *Scheduled) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, s.First)
	b = binary.AppendVarint(b, s.Stamp)
	return AppendRepeats(appendTimes(b, s.Dues), s.Repeats)
}

// Parse reads the frame's body.
func (s *Scheduled) Parse(b []byte) error {
	r := mq.NewReader(b)
	*s = Scheduled{First: r.Uvarint(), Stamp: r.Varint(), Dues: parseTimes(r)}
	s.Repeats = ReadRepeats(r)
	return r.Err()
}

func appendTimes(b []byte, times []int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(times)))
	before := int64(0)
	for _, t := range times {
		b = binary.AppendVarint(b, t-before)
		before = t
	}
	return b
}

func parseTimes(r *mq.Reader) []int64 {
	times := make([]int64, r.Count(1))
	before := int64(0)
	for i := range times {
		before += r.Varint()
		times[i] = before
	}
	return times
}
