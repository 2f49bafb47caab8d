package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/splashdam/splashdam/shared/api"
)

// StreamOptions bound a PublishStream; zero fields take the defaults.
type StreamOptions struct {
	// Window is how many messages may be sent and not yet received the answer of; at the bound Send waits.
	// Default 10,000.
	Window int
}

// maxResultLine bounds one line of the answer.
const maxResultLine = 1 << 20

// PublishStream publishes over one request that stays open both ways: each message is answered when it is
// committed, in the order of sending. One goroutine may Send while another one Receives. Nothing is
// repeated: when the stream breaks, or its gateway falls silent, what was sent and not answered has an unknown outcome.
type PublishStream struct {
	lines   *io.PipeWriter
	window  *semaphore.Weighted
	size    int64
	cancel  context.CancelCauseFunc
	ctx     context.Context
	guard   *guard
	opened  chan struct{} // closed when answer or err is set
	answer  *http.Response
	err     error
	results *bufio.Scanner
	running sync.WaitGroup
}

// PublishStream opens a stream to one topic. The context ends it. It does not wait for the server: what
// goes wrong at the start is the error of the first Recv.
func (c *Client) PublishStream(ctx context.Context, topic string, o StreamOptions) *PublishStream {
	size := int64(orDefault(o.Window, 10_000))
	s := &PublishStream{window: semaphore.NewWeighted(size), size: size, opened: make(chan struct{})}
	base := c.servers.current()
	s.ctx, s.guard = c.guard(ctx, base, waitSilence)
	s.cancel = s.guard.cancel
	reader, writer := io.Pipe()
	s.lines = writer
	s.running.Go(func() { s.open(c, base+pathOf("topics", topic, "messages", "batch"), reader) })
	return s
}

// open sends the request. net/http returns from Do with the answer's header, while the body is still sent.
func (s *PublishStream) open(c *Client, target string, body *io.PipeReader) {
	defer close(s.opened)
	request, err := http.NewRequestWithContext(s.ctx, http.MethodPost, target, body)
	if err != nil {
		s.err = err
		_ = body.CloseWithError(err)
		return
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	request.Header.Set("Accept", "application/x-ndjson")
	request.Header.Set("User-Agent", c.userAgent)
	answer, err := c.http.Do(request)
	err = s.guard.explain(err)
	if err == nil {
		answer.Body = &guarded{answer.Body, s.guard}
	}
	if err == nil && answer.StatusCode >= 300 {
		defer drop(answer)
		err = readProblem(answer)
	}
	if err != nil {
		s.err = err
		s.cancel(err)
		_ = body.CloseWithError(err) // wakes a Send that waits for the server to read
		return
	}
	s.answer = answer
	s.results = bufio.NewScanner(answer.Body)
	s.results.Buffer(make([]byte, 0, 64<<10), maxResultLine)
}

// Send writes messages, waiting while the window or the connection is full; more than a window of messages
// in one call is an error. A message that can't be written as JSON fails the call before anything is sent.
func (s *PublishStream) Send(ctx context.Context, messages ...Message) error {
	if int64(len(messages)) > s.size {
		return fmt.Errorf("client: %d messages in one Send, the window is %d", len(messages), s.size)
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines) // ends each with a newline
	for i := range messages {
		item, err := messages[i].item()
		if err != nil {
			return err
		}
		if err := encoder.Encode(item); err != nil {
			return err
		}
	}
	// The window opens with answers, so the wait must also end when no more will come.
	wait, done := context.WithCancelCause(ctx)
	defer context.AfterFunc(s.ctx, func() { done(context.Cause(s.ctx)) })()
	defer done(nil)
	if err := s.window.Acquire(wait, int64(len(messages))); err != nil {
		return context.Cause(wait)
	}
	_, err := s.lines.Write(lines.Bytes())
	if errors.Is(err, io.ErrClosedPipe) {
		return s.broken()
	}
	return err
}

func (s *PublishStream) broken() error {
	if cause := context.Cause(s.ctx); cause != nil {
		return cause
	}
	return ErrClosed
}

// Recv returns the next answer in the order of sending, its error as Result.Err. After CloseSend and the
// last answer it returns io.EOF; any other error means that the stream is over.
func (s *PublishStream) Recv() (Result, error) {
	<-s.opened
	if s.err != nil {
		return Result{}, s.err
	}
	if !s.results.Scan() {
		err := s.results.Err()
		if err == nil {
			err = io.EOF
		}
		s.cancel(err)
		return Result{}, err
	}
	var r api.PublishResult
	if err := json.Unmarshal(s.results.Bytes(), &r); err != nil {
		err = fmt.Errorf("client: a line of the answer is no JSON: %w", err)
		s.cancel(err)
		return Result{}, err
	}
	s.window.Release(1)
	if r.Error != nil {
		return Result{Err: itemError(r.Error)}, nil
	}
	return Result{Published: api.Published{ID: r.ID, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Duplicate: r.Duplicate}}, nil
}

// CloseSend says that no more messages come; Recv goes on to the last answer.
func (s *PublishStream) CloseSend() error { return s.lines.Close() }

// Close ends the stream at once. It must be called once Recv is done with.
func (s *PublishStream) Close() {
	s.cancel(ErrClosed)
	_ = s.lines.CloseWithError(ErrClosed)
	s.running.Wait()
	if s.answer != nil {
		_ = s.answer.Body.Close()
	}
	s.guard.stop()
}
