package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	// noteAgain is how long the same note is not written again: a fault that lasts is told now and then, not at each try.
	noteAgain = 10 * time.Second
	// mostNotes bounds the notes that are remembered for that.
	mostNotes = 100
	// slowAnswer is how long an answer that should come at once is waited for without a word.
	slowAnswer = 5 * time.Second
)

// notes tell on stderr what passes while a command goes on: that it tries again and why, and that a gateway answers again.
// They are the log of the SDK; any goroutine may write one.
type notes struct {
	w io.Writer

	mu      sync.Mutex
	at      map[string]time.Time // when each was written last; at most mostNotes
	trouble bool                 // one was written, and no answer since
}

// Enabled leaves out what helps nobody who uses a command.
func (*notes) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// WithAttrs is that of a slog.Handler; the SDK's log has none.
func (n *notes) WithAttrs([]slog.Attr) slog.Handler { return n }

// WithGroup is that of a slog.Handler; the SDK's log has none.
func (n *notes) WithGroup(string) slog.Handler { return n }

// Handle writes one entry of the SDK's log.
func (n *notes) Handle(_ context.Context, r slog.Record) error {
	var err error
	server := ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "err":
			err, _ = a.Value.Any().(error)
		case "server":
			server = a.Value.String()
		}
		return true
	})
	switch {
	case err != nil:
		n.trying(err, r.Message)
	case server != "":
		n.well(server)
	default:
		n.write(r.Message)
	}
	return nil
}

// trying says that something failed, and what happens now.
func (n *notes) trying(err error, what string) { n.write(passing(err) + "; " + what) }

// well says that a gateway answers, if a trouble was told before.
func (n *notes) well(server string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.trouble {
		n.trouble = false
		fmt.Fprintf(n.w, "the gateway %s answers; going on\n", server)
	}
}

func (n *notes) write(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, ok := n.at[text]; ok && time.Since(at) < noteAgain {
		return
	}
	if len(n.at) == mostNotes {
		clear(n.at)
	}
	n.at[text], n.trouble = time.Now(), true
	fmt.Fprintln(n.w, setIn(text))
}

// slow says that an answer takes long, unless that is stopped before or a trouble that it waits for is told.
func (n *notes) slow(after time.Duration) (stop func()) {
	done := make(chan struct{})
	t := time.AfterFunc(after, func() {
		defer close(done)
		n.mu.Lock()
		told := n.trouble
		n.mu.Unlock()
		if !told {
			n.write("no answer yet; waiting")
		}
	})
	return func() {
		if !t.Stop() {
			<-done
		}
	}
}

// oneByOne lets the notes and what a command itself says on stderr not get into each other.
type oneByOne struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneByOne) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}
