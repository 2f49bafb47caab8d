package frame

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// body is what every frame is.
type body interface {
	AppendTo([]byte) []byte
	Parse([]byte) error
}

var p = mq.PartitionID{Topic: 300, Number: 7}

// samples has one of each type with every field set, so that a field which is forgotten on the way shows.
func samples() []body {
	at := mq.Position{Offset: 1 << 40, Seq: 3}
	chunks := []Chunk{{First: 5, Stamp: -6, Sliced: true, Ordinals: []uint32{1, 4}, Batch: []byte("batch")}, {First: 9, Stamp: 1, Batch: []byte("b")}}
	return []body{
		&Error{Code: mqerr.NoLeader, Detail: "d", Leader: "node-2", RetryAfter: time.Second},
		&Append{Partition: p, Route: 2, Batch: []byte("batch")},
		&Appended{First: 1 << 50, Count: 3, Stamp: -4},
		&Receive{Partition: p, Group: 4, Max: 5, MaxBytes: 6, Lease: -7, Consumer: "c", Handover: 8, Account: 9},
		&Received{Generation: 1, Segment: 2, LeaseUntil: 3, Ready: 4, Runs: []Run{{First: 5, Count: 6, Attempt: 7, Counter: 8}}, Chunks: chunks},
		&Handover{Partition: p, Group: 4, Handover: 5, Offsets: []uint64{6, 7}},
		&Settle{Partition: p, Items: []SettleItem{{Receipt: []byte("r"), Outcome: OutcomeNack, Delay: -1, Reason: "why"}}},
		&Settled{Codes: []mqerr.Code{mqerr.OK, mqerr.ReceiptStale}, Until: []int64{1, -2}},
		&Read{Partition: p, From: Place{AtTime, 5}, To: Place{Latest, 0}, Limit: 6, MaxBytes: 7, Backward: true},
		&ReadDone{First: 1, End: 2, Next: 3, Chunks: chunks},
		&Freed{Partition: p, Runs: []FreedRun{{Account: 1, Segment: 2, Counter: 3, Count: 4}}},
		&Leased{Partition: p, Group: 4, Items: []LeasedItem{{Offset: 5, Segment: 6, Counter: 7}}},
		&LeasedUntil{Until: []int64{1, 0, -3}},
		&Ready{Interest: []Interest{{p, 9}}},
		&Counts{Ready: []ReadyCount{{Interest{p, 9}, 10, mqerr.NotLeader}}},
		&Entries{Segment: 1, Commit: at, Entries: [][]byte{[]byte("e1"), []byte("e2")}},
		&Acks{Clock: -1, Acks: []Ack{{Segment: 1, Tail: at, State: AckGap}}},
		&Status{Clock: 5},
		&Ask{Segments: []mq.SegmentID{1, 2}},
	}
}

func TestFramesComeBack(t *testing.T) {
	for _, in := range samples() {
		out := reflect.New(reflect.TypeOf(in).Elem()).Interface().(body)
		raw := in.AppendTo(nil)
		if err := out.Parse(raw); err != nil || !reflect.DeepEqual(in, out) {
			t.Errorf("%T: %+v, want %+v (%v)", in, out, in, err)
		}
		for n := range raw { // a frame that was cut is an error, never a shorter frame
			if out.Parse(raw[:n]) == nil && n < len(raw) {
				if again := out.AppendTo(nil); len(again) == len(raw) {
					t.Errorf("%T: %d of %d bytes are taken for all of it", in, n, len(raw))
				}
			}
		}
	}
}

func TestErrorKeepsItsCode(t *testing.T) {
	e := ErrorOf(mqerr.New(mqerr.StorageFull, "disk %d", 1))
	if err := e.Err(); !mqerr.Is(err, mqerr.StorageFull) || err.Error() != "storage_full: disk 1" {
		t.Fatal(err)
	}
	if e := ErrorOf(errors.New("x")); e.Code != mqerr.Internal {
		t.Fatal(e.Code)
	}
}

func FuzzFrames(f *testing.F) {
	for i, s := range samples() {
		f.Add(uint8(i), s.AppendTo(nil))
	}
	kinds := samples()
	f.Fuzz(func(t *testing.T, kind uint8, raw []byte) {
		out := reflect.New(reflect.TypeOf(kinds[int(kind)%len(kinds)]).Elem()).Interface().(body)
		_ = out.Parse(raw)
	})
}
