package wire

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Stream is a request whose body and answer are both streams of lines, open at the same time. One
// goroutine uses it, so what is sent and not answered must fit into the sockets' buffers: below 1 MiB.
type Stream struct {
	conn   *Conn
	opened bool
	left   int64 // of the chunk that is being read
	ended  bool
	line   []byte
}

// OpenStream sends the head of a chunked POST of x-ndjson. The stream ends with Close.
func OpenStream(ctx context.Context, addresses []string, first int, timeout time.Duration, path string) (*Stream, error) {
	c := New(ctx, addresses, first, timeout)
	if err := c.open(); err != nil {
		c.Close()
		return nil, err
	}
	head := appendPost(nil, path, "application/x-ndjson")
	head = append(head, "Accept: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"...)
	if _, err := c.socket.Write(head); err != nil {
		c.Close()
		return nil, &Error{Sent: true, Err: err}
	}
	return &Stream{conn: c}, nil
}

// Close hangs up.
func (s *Stream) Close() { s.conn.Close() }

// Write sends lines as one chunk.
func (s *Stream) Write(lines []byte) error {
	c := s.conn
	if err := c.socket.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	c.out = strconv.AppendInt(c.out[:0], int64(len(lines)), 16)
	c.out = append(c.out, "\r\n"...)
	c.out = append(c.out, lines...)
	c.out = append(c.out, "\r\n"...)
	_, err := c.socket.Write(c.out)
	return err
}

// End says that no more lines come.
func (s *Stream) End() error {
	_, err := s.conn.socket.Write([]byte("0\r\n\r\n"))
	return err
}

// Buffered says whether a Next would find bytes without waiting for the server.
func (s *Stream) Buffered() bool { return s.conn.reader.Buffered() > 0 }

// Next returns the next line of the answer, valid until the next call; io.EOF after the last one.
func (s *Stream) Next() ([]byte, error) {
	r := s.conn.reader
	if !s.opened {
		if err := s.begin(); err != nil {
			return nil, err
		}
	}
	s.line = s.line[:0]
	for {
		for s.left == 0 {
			if s.ended {
				return nil, io.EOF
			}
			if err := s.nextChunk(); err != nil {
				return nil, err
			}
		}
		peek, err := r.Peek(int(min(s.left, int64(max(r.Buffered(), 1)))))
		if err != nil {
			return nil, err
		}
		part, whole := cutLine(peek)
		s.line = append(s.line, part...)
		_, _ = r.Discard(len(part))
		s.left -= int64(len(part))
		if len(s.line) > MaxBody {
			return nil, fmt.Errorf("%w: a line over %d bytes", errHead, MaxBody)
		}
		if s.left == 0 {
			if end, err := readLine(r); err != nil || len(end) != 0 {
				return nil, fmt.Errorf("%w: a chunk does not end where it should (%v)", errHead, err)
			}
		}
		if whole {
			return s.line[:len(s.line)-1], nil
		}
	}
}

// cutLine gives what belongs to the line, its end included.
func cutLine(b []byte) (part []byte, whole bool) {
	for i, c := range b {
		if c == '\n' {
			return b[:i+1], true
		}
	}
	return b, false
}

// begin reads the head of the answer, which comes with the first results or with a refusal.
func (s *Stream) begin() error {
	a := &s.conn.answer
	if err := a.readHead(s.conn.reader); err != nil {
		return err
	}
	if a.Status != 200 || !a.chunked {
		return fmt.Errorf("wire: the stream was answered with status %d", a.Status)
	}
	s.opened = true
	return nil
}

func (s *Stream) nextChunk() (err error) {
	if s.left, err = chunkLength(s.conn.reader); err != nil {
		return err
	}
	if s.left == 0 {
		s.ended = true
		return s.conn.answer.readHeaders(s.conn.reader)
	}
	return nil
}
