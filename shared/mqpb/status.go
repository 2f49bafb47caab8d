package mqpb

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// Status turns an error of the table into a gRPC error; Error turns it back. The code travels as its name in front of
// the message, since gRPC's own codes are too few.
func Status(err error) error {
	e := mqerr.Of(err)
	if e == nil {
		return nil
	}
	return status.Error(codes.Aborted, e.Code.String()+": "+e.Detail)
}

// Error turns what a control call failed with into an error of the table. What did not come from Status
// is NoLeader if the node could not be reached, OutcomeUnknown at the end of a deadline, else Internal.
func Error(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	switch s.Code() {
	case codes.Aborted:
		name, detail, _ := strings.Cut(s.Message(), ": ")
		for _, c := range mqerr.Codes() {
			if c.String() == name {
				return &mqerr.Error{Code: c, Detail: detail}
			}
		}
	case codes.Unavailable:
		return mqerr.New(mqerr.NoLeader, "the node can't be reached: %s", s.Message())
	case codes.DeadlineExceeded, codes.Canceled:
		return mqerr.New(mqerr.OutcomeUnknown, "no answer in time: %s", s.Message())
	}
	return mqerr.New(mqerr.Internal, "%s", s.Message())
}
