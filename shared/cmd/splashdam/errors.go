package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"

	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// usageError is a command line that kong takes and that makes no sense.
type usageError struct{ text string }

func (e usageError) Error() string { return e.text }

func wrongUsage(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// goodLimit refuses a list of nothing: it would be shown as if there were nothing.
func goodLimit(n int) error {
	if n < 1 {
		return wrongUsage("--limit must be 1 or more")
	}
	return nil
}

// partError says that some of several things failed. Each has been told already; the first one, or one whose
// outcome is unknown, says which exit status it is.
type partError struct{ first error }

func (e partError) Error() string { return "not all of it could be done" }

// partly is nil without an error.
func partly(first error) error {
	if first == nil {
		return nil
	}
	return partError{first}
}

// report tells an error with what to do about it, and says which exit status it is.
func report(w io.Writer, err error, interrupted bool) int {
	if interrupted && errors.Is(err, context.Canceled) {
		fmt.Fprintln(w, "splashdam: interrupted")
		return exitInterrupted
	}
	var part partError
	if errors.As(err, &part) {
		fmt.Fprintln(w, fault(err))
		if client.IsOutcomeUnknown(part.first) {
			fmt.Fprintln(w, "  What has an unknown outcome may be there. To be able to repeat safely, publish\n  with --idempotency-key.")
		}
		return report(io.Discard, part.first, interrupted)
	}
	var e *client.Error
	if errors.As(err, &e) {
		fmt.Fprintln(w, fault(e))
		if hint := hintOf(e); hint != "" && !strings.Contains(e.Error(), hint) {
			fmt.Fprintln(w, setIn("  "+hint))
		}
		if e.RequestID != "" {
			fmt.Fprintf(w, "  request id %s\n", e.RequestID)
		}
		switch {
		case e.OutcomeUnknown():
			return exitUnknown
		case e.Retryable:
			return exitUnavailable
		}
		return exitRefused
	}
	var wrong usageError
	if errors.As(err, &wrong) {
		return usage(w, wrong)
	}
	fmt.Fprintln(w, fault(err))
	var dial *net.OpError
	var lost *url.Error // of net/http: the connection broke
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		fmt.Fprintln(w, "  Is a gateway running there? Name others with --server or SPLASHDAM_SERVER.")
		return exitUnavailable
	case errors.Is(err, client.ErrSilent):
		fmt.Fprintln(w, "  Is it stopped or overloaded? Name others with --server or SPLASHDAM_SERVER.")
		return exitUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		fmt.Fprintln(w, "  No answer within --timeout.")
		return exitUnavailable
	case errors.As(err, &lost):
		return exitUnavailable
	}
	return exitRefused
}

// fault is the text of an error, without the name of the SDK's package.
func fault(err error) string {
	return setIn("splashdam: " + strings.ReplaceAll(strings.TrimPrefix(err.Error(), "client: "), ": client: ", ": "))
}

// setIn breaks the lines of a text so that they fit 80 columns, those that go on set in. What is longer in itself, such as an
// address, stays whole.
func setIn(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(wrap(line, 78), "\n", "\n  ")
	}
	return strings.Join(lines, "\n")
}

// hintOf is what the table of codes says to do; items of a batch carry the code only.
func hintOf(e *client.Error) string {
	if e.Title != "" {
		return e.Title
	}
	for _, c := range mqerr.Codes() {
		if c.String() == e.Code {
			return c.Title()
		}
	}
	return ""
}

// passing tells a fault that passes to one who follows: what the server said, or why the connection broke. Which call it
// was and that its outcome is open does not matter there, since what was not acknowledged comes again.
func passing(err error) string {
	var e *client.Error
	if errors.As(err, &e) && errors.Unwrap(e) == nil {
		return e.Error()
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if text, ok := strings.CutPrefix(inner.Error(), "client: "); ok {
			return text // that names the gateway
		}
	}
	return err.Error()
}
