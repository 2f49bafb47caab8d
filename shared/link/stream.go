// Package link is the transport of frames: one long-lived gRPC stream per pair of processes with many
// requests in flight. Frames that wait are coalesced into one gRPC message, because a message costs
// about 16 microseconds of CPU whatever its size.
package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// ErrClosed says that a stream has ended; whatever was not answered on it has an unknown outcome.
var ErrClosed = errors.New("link: the stream has ended")

// ErrFull says that a frame was not taken because the peer reads too slowly. Nothing of it was sent.
var ErrFull = errors.New("link: the peer reads too slowly")

const (
	// maxWaiting bounds the bytes that wait to be sent on one stream; a frame beyond it is refused.
	maxWaiting = 64 << 20
	// sendAbout is where a coalesced message ends; a larger frame goes alone.
	sendAbout = 1 << 20
)

// Transport is either side of a gRPC stream of Raw messages.
type Transport interface {
	Send(*mqpb.Raw) error
	Recv() (*mqpb.Raw, error)
}

// Encoder is a frame body.
type Encoder interface{ AppendTo(b []byte) []byte }

// Stream sends and receives frames over a transport. Put may be called by anyone; Run by one owner.
type Stream struct {
	t Transport

	mu      sync.Mutex
	chunks  [][]byte // frames that wait, each chunk one gRPC message; the last one is still growing
	waiting int
	closed  bool
	wake    chan struct{} // capacity 1: there is something to send, or the stream is closed
}

// NewStream makes a stream; nothing moves until Run.
func NewStream(t Transport) *Stream {
	return &Stream{t: t, wake: make(chan struct{}, 1)}
}

// Put queues a frame and never blocks: ErrFull at the bound (64 MiB waiting), ErrClosed after the end.
func (s *Stream) Put(t frame.Type, id uint64, body Encoder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.waiting > maxWaiting {
		return ErrFull
	}
	last := len(s.chunks) - 1
	if last < 0 || len(s.chunks[last]) >= sendAbout {
		s.chunks = append(s.chunks, make([]byte, 0, 4<<10))
		last++
	}
	b := s.chunks[last]
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(t))
	b = binary.AppendUvarint(b, id)
	b = body.AppendTo(b)
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	s.waiting += len(b) - start
	if start > 0 && len(b) > sendAbout*2 { // a large frame goes alone
		s.chunks = append(s.chunks, append([]byte(nil), b[start:]...))
		b = b[:start]
	}
	s.chunks[last] = b
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// Handler is given each frame that arrives, in order, on the goroutine of Run. body stays valid after the
// call; it shares memory with its neighbours, so copy what is kept for long.
type Handler func(t frame.Type, id uint64, body []byte) error

// Run sends and receives until the transport ends, handle fails, or Close; it returns when both
// directions have stopped. The caller must end the transport (cancel its context, or return from the server's handler) for
// a blocked Recv to stop: stop is called for that once.
func (s *Stream) Run(handle Handler, stop func()) error {
	var wg sync.WaitGroup
	wg.Add(1)
	var sendErr error
	go func() {
		defer wg.Done()
		if sendErr = s.send(); sendErr != nil {
			stop()
		}
	}()
	err := s.receive(handle)
	s.Close()
	stop()
	wg.Wait()
	if err == nil || errors.Is(err, ErrClosed) {
		err = sendErr
	}
	return err
}

// Close ends the stream for senders; what waits is dropped.
func (s *Stream) Close() {
	s.mu.Lock()
	s.closed = true
	s.chunks, s.waiting = nil, 0
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Waiting is how many bytes wait to be sent.
func (s *Stream) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

func (s *Stream) send() error {
	for range s.wake {
		for {
			s.mu.Lock()
			if s.closed {
				s.mu.Unlock()
				return ErrClosed
			}
			if len(s.chunks) == 0 {
				s.mu.Unlock()
				break
			}
			b := s.chunks[0]
			s.chunks[0] = nil
			s.chunks = s.chunks[1:]
			s.waiting -= len(b)
			s.mu.Unlock()
			if err := s.t.Send(&mqpb.Raw{Data: b}); err != nil {
				return err
			}
		}
	}
	return ErrClosed
}

func (s *Stream) receive(handle Handler) error {
	for {
		m, err := s.t.Recv()
		if err != nil {
			return err
		}
		for b := m.Data; len(b) > 0; {
			if len(b) < 4 {
				return fmt.Errorf("link: %d bytes left of a message", len(b))
			}
			n := int(binary.BigEndian.Uint32(b))
			if n < 2 || n > len(b)-4 {
				return fmt.Errorf("link: a frame of %d bytes in %d", n, len(b)-4)
			}
			f := b[4 : 4+n : 4+n]
			b = b[4+n:]
			id, k := binary.Uvarint(f[1:])
			if k <= 0 {
				return errors.New("link: a frame without a request id")
			}
			if err := handle(frame.Type(f[0]), id, f[1+k:]); err != nil {
				return err
			}
		}
	}
}
