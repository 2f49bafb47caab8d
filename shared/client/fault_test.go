package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// What a caller reads of a connection that failed names the gateway, the time or the reason, and no function of Go; what it was stays to
// be asked for.
func TestFaultsAreWorded(t *testing.T) {
	at := func(op string, err error) error {
		return &url.Error{Op: "Post", URL: "http://g:1/v1/x", Err: &net.OpError{Op: op, Net: "tcp", Err: err}}
	}
	for _, x := range []struct {
		err  error
		want string
	}{
		{at("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED)), "client: no connection to the gateway http://g:1: connection refused"},
		{at("dial", &net.DNSError{Err: "no such host", Name: "g"}), "client: no connection to the gateway http://g:1: the name g can't be resolved: no such host"},
		{at("dial", os.ErrDeadlineExceeded), "client: no connection to the gateway http://g:1 within 2.5s"},
		{at("read", os.NewSyscallError("read", syscall.ECONNRESET)), "client: the connection to the gateway http://g:1 broke: connection reset by peer"},
		{&url.Error{Op: "Get", URL: "http://g:1/v1/x", Err: net.ErrClosed}, "client: the connection to the gateway http://g:1 broke"},
		{&url.Error{Op: "Get", URL: "http://g:1/v1/x", Err: context.DeadlineExceeded}, "client: no answer from the gateway http://g:1 within 2.5s"},
		{&url.Error{Op: "Get", URL: "http://g:1/v1/x", Err: errors.New("tls: no certificate")}, "client: no answer from the gateway http://g:1: no certificate"},
	} {
		got := faultOf("http://g:1", 2500*time.Millisecond, x.err)
		if got.Error() != x.want || !errors.Is(got, x.err) || faultOf("http://g:1", 0, got) != got {
			t.Errorf("%v: %v", x.err, got)
		}
	}
	if err := error(context.Canceled); faultOf("http://g:1", 0, err) != err {
		t.Error("what the caller gave up is no fault of the gateway")
	}
}

// A caller whose time ends while another answer is waited for reads what a gateway said before; what was sent and may have been done is
// still of unknown outcome.
func TestTheLastWordIsToldWhenTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		w := &wire{answer: func(n int, r *http.Request, _ []byte) (*http.Response, error) {
			if n == 0 {
				return refusal(503, "no_leader", true), nil
			}
			connected(r)
			<-r.Context().Done()
			return nil, r.Context().Err()
		}}
		err := publishBare(ctx, over(t, w, Options{}))
		if !IsOutcomeUnknown(err) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "; before that: no_leader") || strings.Contains(err.Error(), "context") {
			t.Errorf("%v", err)
		}
	})
}
