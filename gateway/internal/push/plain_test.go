package push

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"
)

// The log of attempts tells why an endpoint could not be reached in words, without the URL and what Go says around it.
func TestAttemptsAreWorded(t *testing.T) {
	at := func(err error) error { return &url.Error{Op: "Post", URL: "http://h.example/x", Err: err} }
	for _, x := range []struct {
		err  error
		want string
	}{
		{at(context.DeadlineExceeded), "no answer within 5s"},
		{at(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), "can't connect: connection refused"},
		{at(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "h.example"}}), "the name h.example can't be resolved: no such host"},
		{at(&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}), "the connection broke: connection reset by peer"},
		{at(io.EOF), "the connection broke: it ended too soon"},
		{at(errors.New("http: server gave HTTP response to HTTPS client")), "server gave HTTP response to HTTPS client"},
	} {
		if got := plain(x.err, 5*time.Second); got.Error() != x.want {
			t.Errorf("%v: %q, want %q", x.err, got, x.want)
		}
	}
}
