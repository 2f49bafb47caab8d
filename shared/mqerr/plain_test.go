package mqerr

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
)

func TestPlain(t *testing.T) {
	for _, x := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{&url.Error{Op: "Post", URL: "http://h/", Err: &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}}, "connection refused"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "h.example"}}, "the name h.example can't be resolved: no such host"},
		{fmt.Errorf("a: %w", context.DeadlineExceeded), "no answer in time"},
		{&net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, "no answer in time"},
		{context.Canceled, "it was given up"},
		{&url.Error{Op: "Post", URL: "http://h/", Err: io.EOF}, "it ended too soon"},
		{io.ErrUnexpectedEOF, "it ended too soon"},
		{gzip.ErrHeader, "invalid header"},
		{New(NoLeader, "as it is"), "no_leader: as it is"},
	} {
		if got := Plain(x.err); got != x.want {
			t.Errorf("%v: %q, want %q", x.err, got, x.want)
		}
	}
}
