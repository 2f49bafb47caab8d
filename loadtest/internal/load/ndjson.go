package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/splashdam/splashdam/loadtest/internal/wire"
)

// NDJSON publishes over one stream a connection, one message a line, each answered by a line. The loop is
// closed by a window: a line goes out for each that came back.
type NDJSON struct {
	Options `embed:""`
	Window  int `short:"w" default:"256" help:"Lines of a connection that are sent and not answered."`
	Keys    int `default:"0" help:"Spread messages over so many keys; 0: no keys."`
}

// Run puts the load on and reports it.
func (n *NDJSON) Run(ctx context.Context) (*Report, error) {
	lines := newLineBlock(n.Window, n.Size, n.Keys)
	if n.Window < 1 || len(lines.block) > 1<<20 {
		return nil, fmt.Errorf("--window must be 1 or more, and a window of lines at most 1 MiB")
	}
	t, err := prepare(ctx, &n.Options)
	if err != nil {
		return nil, err
	}
	r := newRun("ndjson", &n.Options, t, n)
	err = r.workers(ctx, n.Connections, finishing, func(ctx context.Context, number int, rec *recorder) {
		for r.window.open(ctx) {
			// A stream that breaks is opened again; what it had in its window is not counted.
			if err := n.stream(ctx, t, number, lines, rec); err != nil && ctx.Err() == nil {
				rec.fail(streamCode(err))
				retryPause(ctx, 0)
			}
		}
	})
	return r.finish(ctx, "line", n.Size, err)
}

func streamCode(err error) string {
	var e *wire.Error
	if errors.As(err, &e) && !e.Sent {
		return "not_connected"
	}
	return "stream_lost"
}

// stream runs one stream until ctx ends. Results come in the order of the lines, so the times of sending
// are a ring.
func (n *NDJSON) stream(ctx context.Context, t *target, number int, lines *lineBlock, rec *recorder) error {
	s, err := wire.OpenStream(ctx, t.addresses, number, n.Timeout, t.path("/messages/batch"))
	if err != nil {
		return err
	}
	defer s.Close()
	sent := make([]time.Time, n.Window)
	oldest, toSend := 0, n.Window
	for rec.window.open(ctx) {
		now := time.Now()
		// The slots that came free are the ones before oldest.
		for i := range toSend {
			sent[(oldest+n.Window-toSend+i)%n.Window] = now
		}
		if err := s.Write(lines.take(toSend)); err != nil {
			return err
		}
		toSend = 0
		for toSend == 0 || toSend < n.Window && s.Buffered() {
			line, err := s.Next()
			if err != nil {
				return err
			}
			if bytes.Contains(line, []byte(`"error"`)) {
				rec.fail(wire.Field(line, "code"))
			} else {
				rec.done(sent[oldest], time.Now(), 1)
			}
			oldest = (oldest + 1) % n.Window
			toSend++
		}
	}
	// Time is up: the server gets an end of the body, so that the last lines are not a broken request.
	if err := s.End(); err != nil {
		return nil
	}
	for {
		if _, err := s.Next(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// lineBlock is a window of lines, made once.
type lineBlock struct {
	block []byte
	ends  []int // of each line in block
}

func newLineBlock(n, size, keys int) *lineBlock {
	l := &lineBlock{}
	for i := range n {
		l.block = append(appendItem(l.block, size, i, keys), '\n')
		l.ends = append(l.ends, len(l.block))
	}
	return l
}

// take is the first n lines.
func (l *lineBlock) take(n int) []byte { return l.block[:l.ends[n-1]] }
