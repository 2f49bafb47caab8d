package frame

import (
	"encoding/binary"

	"github.com/splashdam/splashdam/shared/mq"
)

// Freed tells a gateway, unasked, which leases of its accounts are over, however they ended. It is a hint: after a
// change of leader or a broken stream none comes, and the gateway asks with Leased.
type Freed struct {
	Partition mq.PartitionID
	Runs      []FreedRun
}

// FreedRun is leases of one account with counters in a row.
type FreedRun struct {
	Account          uint64
	Segment, Counter uint64
	Count            uint32
}

// AppendTo appends the frame's body.
func (f *Freed) AppendTo(b []byte) []byte {
	b = mq.AppendPartition(b, f.Partition)
	b = binary.AppendUvarint(b, uint64(len(f.Runs)))
	for _, r := range f.Runs {
		b = binary.AppendUvarint(b, r.Account)
		b = binary.AppendUvarint(b, r.Segment)
		b = binary.AppendUvarint(b, r.Counter)
		b = binary.AppendUvarint(b, uint64(r.Count))
	}
	return b
}

// Parse reads the frame's body.
func (f *Freed) Parse(b []byte) error {
	r := mq.NewReader(b)
	*f = Freed{Partition: r.Partition()}
	f.Runs = make([]FreedRun, r.Count(4))
	for i := range f.Runs {
		f.Runs[i] = FreedRun{Account: r.Uvarint(), Segment: r.Uvarint(), Counter: r.Uvarint(), Count: r.Uint32()}
	}
	return r.Err()
}

// Leased asks whether leases of one group go on.
type Leased struct {
	Partition mq.PartitionID
	Group     mq.GroupID
	Items     []LeasedItem
}

// LeasedItem is a message and the fence of its lease.
type LeasedItem struct {
	Offset, Segment, Counter uint64
}

// AppendTo appends the frame's body.
func (f *Leased) AppendTo(b []byte) []byte {
	b = mq.AppendPartition(b, f.Partition)
	b = binary.AppendUvarint(b, uint64(f.Group))
	b = binary.AppendUvarint(b, uint64(len(f.Items)))
	for _, it := range f.Items {
		b = binary.AppendUvarint(b, it.Offset)
		b = binary.AppendUvarint(b, it.Segment)
		b = binary.AppendUvarint(b, it.Counter)
	}
	return b
}

// Parse reads the frame's body.
func (f *Leased) Parse(b []byte) error {
	r := mq.NewReader(b)
	*f = Leased{Partition: r.Partition(), Group: mq.GroupID(r.Uvarint())}
	f.Items = make([]LeasedItem, r.Count(3))
	for i := range f.Items {
		f.Items[i] = LeasedItem{Offset: r.Uvarint(), Segment: r.Uvarint(), Counter: r.Uvarint()}
	}
	return r.Err()
}

// LeasedUntil answers Leased: the end of each lease (Unix nanoseconds) in the order of the question, 0 where it is over.
type LeasedUntil struct {
	Until []int64
}

// AppendTo appends the frame's body.
func (f *LeasedUntil) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(f.Until)))
	for _, u := range f.Until {
		b = binary.AppendVarint(b, u)
	}
	return b
}

// Parse reads the frame's body.
func (f *LeasedUntil) Parse(b []byte) error {
	r := mq.NewReader(b)
	f.Until = make([]int64, r.Count(1))
	for i := range f.Until {
		f.Until[i] = r.Varint()
	}
	return r.Err()
}
