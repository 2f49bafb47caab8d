// Package frame defines what travels on the two kinds of stream between tiers: one per (gateway, log
// node) and one per pair of log nodes. Frames are plain binary structs, not protobuf, because they are
// the hot path: a frame costs no allocation to write and shares memory with the buffer it is read from.
//
// A stream message holds one or more frames, see shared/link. Every struct here has AppendTo and Parse;
// Parse checks lengths before it allocates and never panics on what a peer sends.
package frame

import (
	"encoding/binary"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Type says what a frame is. Numbers are part of the wire format and never change.
type Type uint8

// The types: G from a gateway, N from a log node to a gateway, L from a leader's node, F from a follower's.
const (
	TypeError     Type = 1  // N: Error, the answer to any request that failed as a whole
	TypeAppend    Type = 10 // G: Append
	TypeAppended  Type = 11 // N: Appended
	TypeReceive   Type = 12 // G: Receive
	TypeReceived  Type = 13 // N: Received
	TypeSettle    Type = 14 // G: Settle
	TypeSettled   Type = 15 // N: Settled
	TypeRead      Type = 16 // G: Read
	TypeReadDone  Type = 17 // N: ReadDone
	TypeReady     Type = 18 // G: Ready, what the gateway waits for
	TypeCounts    Type = 19 // N: Counts
	TypeConfirm   Type = 20 // G: Handover that reached its consumer; no answer
	TypeReturn    Type = 21 // G: Handover that did not; no answer
	TypeLeased    Type = 40 // G: Leased, do these leases go on
	TypeUntil     Type = 41 // N: LeasedUntil
	TypeFreed     Type = 42 // N: Freed, unasked; no answer
	TypeSchedule  Type = 50 // G: Schedule
	TypeScheduled Type = 51 // N: Scheduled
	TypeEntries   Type = 30 // L: Entries
	TypeAcks      Type = 31 // F: Acks
	TypeStatus    Type = 32 // L, F: Status, the heartbeat; N too, unasked or for one of G
	TypeAsk       Type = 33 // L: Ask, what tails do you have
)

// Error is a failed request.
type Error struct {
	Code       mqerr.Code
	Detail     string
	Leader     string
	RetryAfter time.Duration
}

// ErrorOf makes a frame of an error.
func ErrorOf(err error) Error {
	e := mqerr.Of(err)
	return Error{Code: e.Code, Detail: e.Detail, Leader: e.Leader, RetryAfter: e.RetryAfter}
}

// Err makes an error of the frame.
func (e *Error) Err() error {
	return &mqerr.Error{Code: e.Code, Detail: e.Detail, Leader: e.Leader, RetryAfter: e.RetryAfter}
}

// AppendTo appends the frame's body.
func (e *Error) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(e.Code))
	b = mq.AppendBytes(mq.AppendBytes(b, e.Detail), e.Leader)
	return binary.AppendUvarint(b, uint64(e.RetryAfter))
}

// Parse reads the frame's body.
func (e *Error) Parse(b []byte) error {
	r := mq.NewReader(b)
	*e = Error{Code: mqerr.Code(r.Uint32()), Detail: r.String(), Leader: r.String(), RetryAfter: time.Duration(r.Uvarint())}
	return r.Err()
}

// Append asks the leader to append one batch (mq.Batch) to a partition. Route is the topic's route
// version that the gateway chose the partition by.
type Append struct {
	Partition mq.PartitionID
	Route     uint64
	Batch     []byte
}

// AppendTo appends the frame's body.
func (a *Append) AppendTo(b []byte) []byte {
	b = mq.AppendPartition(b, a.Partition)
	b = binary.AppendUvarint(b, a.Route)
	return mq.AppendBytes(b, a.Batch)
}

// Parse reads the frame's body; Batch shares memory with b.
func (a *Append) Parse(b []byte) error {
	r := mq.NewReader(b)
	*a = Append{Partition: r.Partition(), Route: r.Uvarint(), Batch: r.Bytes()}
	return r.Err()
}

// Ready tells a node what a gateway's waiters wait for; it is sent when that changes and every second,
// and answered with Counts. Pairs that are not named any more are forgotten.
type Ready struct {
	Interest []Interest
}

// TailGroup stands for readers without a group: the count of such a pair is the next committed offset of the partition.
const TailGroup mq.GroupID = 0

// Interest is one (partition, group) pair.
type Interest struct {
	Partition mq.PartitionID
	Group     mq.GroupID
}

// AppendTo appends the frame's body.
func (f *Ready) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(f.Interest)))
	for _, i := range f.Interest {
		b = mq.AppendPartition(b, i.Partition)
		b = binary.AppendUvarint(b, uint64(i.Group))
	}
	return b
}

// Parse reads the frame's body.
func (f *Ready) Parse(b []byte) error {
	r := mq.NewReader(b)
	f.Interest = make([]Interest, r.Count(3))
	for i := range f.Interest {
		f.Interest[i] = Interest{Partition: r.Partition(), Group: mq.GroupID(r.Uvarint())}
	}
	return r.Err()
}

// Counts says how many messages are ready, for each pair of the question once, in any order.
type Counts struct {
	Ready []ReadyCount
}

// ReadyCount is the answer for one pair. Code is NotLeader where another node leads.
type ReadyCount struct {
	Interest
	Count uint64
	Code  mqerr.Code
}

// AppendTo appends the frame's body.
func (f *Counts) AppendTo(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(f.Ready)))
	for _, c := range f.Ready {
		b = mq.AppendPartition(b, c.Partition)
		b = binary.AppendUvarint(b, uint64(c.Group))
		b = binary.AppendUvarint(b, c.Count)
		b = binary.AppendUvarint(b, uint64(c.Code))
	}
	return b
}

// Parse reads the frame's body.
func (f *Counts) Parse(b []byte) error {
	r := mq.NewReader(b)
	f.Ready = make([]ReadyCount, r.Count(5))
	for i := range f.Ready {
		f.Ready[i] = ReadyCount{Interest{r.Partition(), mq.GroupID(r.Uvarint())}, r.Uvarint(), mqerr.Code(r.Uint32())}
	}
	return r.Err()
}
