package mqerr

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
)

// Plain is the text of an error of a connection, a file or something packed, for somebody who does not know Go: without names of packages
// and functions. It is "" for nil. Errors that this project makes have such texts already.
func Plain(err error) string {
	var dns *net.DNSError
	var errno syscall.Errno
	switch {
	case err == nil:
		return ""
	case errors.As(err, &dns):
		return "the name " + dns.Name + " can't be resolved: " + dns.Err
	case errors.As(err, &errno):
		return errno.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "it was given up"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it ended too soon"
	}
	text := err.Error()
	for _, name := range []string{"net/http: ", "http: ", "gzip: ", "flate: ", "s2: ", "zstd: ", "tls: ", "x509: "} {
		text = strings.TrimPrefix(text, name)
	}
	return text
}
