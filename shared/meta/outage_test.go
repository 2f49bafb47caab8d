package meta

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// Whoever reads that coordinators fail reads which ones and for how long, and nothing of what Go, gRPC or etcd say of it.
func TestFailedCallSaysWhoIsSilent(t *testing.T) {
	_, s, one, two := throughGates(t)
	a, b := one.Addr().String(), two.Addr().String()
	if err := s.Alive(t.Context()); err != nil {
		t.Fatal(err)
	}
	said := func() string {
		s.looked.at = time.Time{}
		e := mqerr.Of(s.failed("reading /topics/x", time.Now().Add(-5*time.Second), context.DeadlineExceeded))
		if e.Code != mqerr.MetadataUnavailable || !errors.Is(e, context.DeadlineExceeded) {
			t.Errorf("%#v", e)
		}
		return e.Detail
	}
	if got, want := said(), fmt.Sprintf("reading /topics/x: no coordinator answered within 5 s (%s, %s); all of them do now", a, b); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	two.mu.Lock()
	if got, want := said(), fmt.Sprintf("reading /topics/x: 1 of 2 coordinators are silent (%s), and the others gave no answer within 5 s", b); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	one.mu.Lock()
	if got, want := said(), fmt.Sprintf("reading /topics/x: no coordinator answered within 5 s (%s, %s)", a, b); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	one.mu.Unlock()
	two.mu.Unlock()
}

// Real calls while all members hang.
func TestCallsWhileNobodyAnswers(t *testing.T) {
	_, s, one, two := throughGates(t)
	if err := s.Alive(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, g := range []*gate{one, two} {
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for what, err := range map[string]error{"read": s.Alive(ctx), "write": s.SetDrain(ctx, "node-1", true)} {
		d := mqerr.Of(err).Detail
		if !strings.Contains(d, ": no coordinator answered") || !strings.HasSuffix(d, fmt.Sprintf("(%s, %s)", one.Addr(), two.Addr())) {
			t.Errorf("%s: %s", what, d)
		}
	}
}

func TestKeysAreNamed(t *testing.T) {
	for key, want := range map[string]string{topicKey("orders"): "topic orders", groupKey(7, "billing"): "group billing", memberKey(7, "m-1"): "member m-1",
		webhookKey(7, "w"): "webhook w", NodeKey("node-1"): "log node node-1", keyCluster: keyCluster} {
		if got := keyName(key); got != want {
			t.Errorf("%s: %s", key, got)
		}
	}
}

func TestWordsOfEtcd(t *testing.T) {
	for _, x := range []struct {
		err  error
		want string
	}{
		{context.DeadlineExceeded, "x: the coordinators did not answer in time"},
		{status.Error(codes.Unavailable, "connection error: desc = \"transport: Error while dialing\""), "x: the coordinators did not answer in time"},
		{rpctypes.ErrTimeout, "x: the coordinators did not answer in time"},
		{rpctypes.ErrNoLeader, "x: the coordinators did not answer in time"},
		{fmt.Errorf("y: %w", context.Canceled), "x: the call was given up"},
		{status.FromContextError(context.Canceled).Err(), "x: the call was given up"},
		{rpctypes.ErrNoSpace, "x: the coordinators have no room left for metadata"},
		{rpctypes.ErrRequestTooLarge, "x: the coordinators refuse it: request is too large"},
	} {
		if got := mqerr.Of(unavailable("x", x.err)).Detail; got != x.want {
			t.Errorf("%v: %s, want %s", x.err, got, x.want)
		}
	}
}
