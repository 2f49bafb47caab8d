package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
	"time"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// faultOf words what failed at a gateway for a caller that has waited. What a caller gave up himself, and what is worded already, stays.
func faultOf(base string, waited time.Duration, err error) error {
	var known *mqerr.Worded
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrSilent) || errors.As(err, &known) {
		return err
	}
	var op *net.OpError
	var dns *net.DNSError
	var errno syscall.Errno
	why := ""
	if errors.As(err, &dns) || errors.As(err, &errno) {
		why = ": " + mqerr.Plain(err)
	}
	text := ""
	switch {
	case errors.As(err, &op) && op.Op == "dial" && op.Timeout():
		text = fmt.Sprintf("no connection to the gateway %s within %s", base, seconds(waited))
	case errors.As(err, &op) && op.Op == "dial":
		text = fmt.Sprintf("no connection to the gateway %s%s", base, why)
	case errors.Is(err, context.DeadlineExceeded):
		text = fmt.Sprintf("no answer from the gateway %s within %s", base, seconds(waited))
	case why != "", errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		text = fmt.Sprintf("the connection to the gateway %s broke%s", base, why)
	default:
		inner := err
		for u := (*url.Error)(nil); errors.As(inner, &u); {
			inner = u.Err
		}
		text = fmt.Sprintf("no answer from the gateway %s: %s", base, mqerr.Plain(inner))
	}
	return &mqerr.Worded{Text: "client: " + text, Cause: err}
}

// ended is why a caller waits no longer.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
		return &mqerr.Worded{Text: "the call's time was over", Cause: cause}
	}
	return context.Cause(ctx)
}

// seconds is a time that somebody waited, as he would say it.
func seconds(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
