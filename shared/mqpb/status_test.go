package mqpb

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

func TestErrorsCrossControlCalls(t *testing.T) {
	for _, c := range mqerr.Codes() {
		err := Error(Status(mqerr.New(c, "detail: with a colon")))
		if e := mqerr.Of(err); e.Code != c || e.Detail != "detail: with a colon" {
			t.Errorf("%s came back as %v", c, err)
		}
	}
	for code, want := range map[codes.Code]mqerr.Code{codes.Unavailable: mqerr.NoLeader, codes.DeadlineExceeded: mqerr.OutcomeUnknown,
		codes.Internal: mqerr.Internal} {
		if err := Error(status.Error(code, "x")); !mqerr.Is(err, want) {
			t.Errorf("%s became %v", code, err)
		}
	}
	plain := errors.New("plain")
	if Error(plain) != plain || Error(nil) != nil || Status(nil) != nil {
		t.Error("other errors stay as they are")
	}
}

func TestSegmentComesBack(t *testing.T) {
	s := mq.Segment{ID: 1, Partition: mq.PartitionID{Topic: 2, Number: 3}, Number: 4, Base: mq.Position{Offset: 5, Seq: 6}, Quorum: 2,
		Replicas: []mq.Replica{{Store: "a", Node: "n"}, {Store: "b", Node: "m"}}, Leader: mq.Incarnation{Store: "b", Boot: 7}}
	got := FromSegment(&s).MQ()
	if got.String() != s.String() || got.Leader != s.Leader || len(got.Replicas) != 2 || got.Replicas[1] != s.Replicas[1] || got.Quorum != 2 ||
		got.LeaderNode() != "m" {
		t.Fatalf("%+v", got)
	}
}
