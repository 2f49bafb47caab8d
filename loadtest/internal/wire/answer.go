package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Answer is one answer. Body is valid until the next request of the connection.
type Answer struct {
	Status     int
	Body       []byte
	RetryAfter time.Duration // 0 when the server does not say

	length  int64 // of the body; -1 when it is not given
	chunked bool
	close   bool
}

var errHead = errors.New("wire: the answer is no HTTP/1.1 that this client knows")

// maxHeaderLines bounds the head of an answer; a line is bounded by the reader's buffer.
const maxHeaderLines = 200

func (a *Answer) read(r *bufio.Reader) error {
	if err := a.readHead(r); err != nil {
		return err
	}
	a.Body = a.Body[:0]
	switch {
	case a.Status == 204 || a.Status == 304:
		return nil
	case a.chunked:
		return a.readChunks(r)
	case a.length >= 0:
		return a.extend(r, a.length)
	}
	return fmt.Errorf("%w: a body without a length", errHead)
}

// readHead reads the status line and the headers, passing over 1xx answers.
func (a *Answer) readHead(r *bufio.Reader) error {
	for {
		a.length, a.chunked, a.close, a.RetryAfter = -1, false, false, 0
		line, err := readLine(r)
		if err != nil {
			return err
		}
		if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
			return fmt.Errorf("%w: %.80q", errHead, line)
		}
		if a.Status, err = strconv.Atoi(string(line[9:12])); err != nil || a.Status < 100 {
			return fmt.Errorf("%w: %.80q", errHead, line)
		}
		if err := a.readHeaders(r); err != nil {
			return err
		}
		if a.Status >= 200 {
			return nil
		}
	}
}

func (a *Answer) readHeaders(r *bufio.Reader) error {
	for range maxHeaderLines {
		line, err := readLine(r)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			return fmt.Errorf("%w: %.80q", errHead, line)
		}
		if err := a.header(name, bytes.TrimSpace(value)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: more than %d header lines", errHead, maxHeaderLines)
}

// header looks at the few headers that say where the body ends. The length of the name tells most of the
// others apart without a comparison.
func (a *Answer) header(name, value []byte) error {
	switch len(name) {
	case len("Connection"):
		a.close = a.close || bytes.EqualFold(name, []byte("Connection")) && bytes.EqualFold(value, []byte("close"))
	case len("Retry-After"):
		if bytes.EqualFold(name, []byte("Retry-After")) {
			if s, err := strconv.Atoi(string(value)); err == nil && s > 0 && s < 1<<20 {
				a.RetryAfter = time.Duration(s) * time.Second
			}
		}
	case len("Content-Length"):
		if bytes.EqualFold(name, []byte("Content-Length")) {
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil || n < 0 || n > MaxBody {
				return fmt.Errorf("%w: Content-Length %.40q", errHead, value)
			}
			a.length = n
		}
	case len("Transfer-Encoding"):
		a.chunked = a.chunked || bytes.EqualFold(name, []byte("Transfer-Encoding")) && bytes.EqualFold(value, []byte("chunked"))
	}
	return nil
}

func (a *Answer) readChunks(r *bufio.Reader) error {
	for {
		n, err := chunkLength(r)
		if err != nil {
			return err
		}
		if n == 0 {
			return a.readHeaders(r) // trailers, and the empty line
		}
		if err := a.extend(r, n); err != nil {
			return err
		}
		if line, err := readLine(r); err != nil || len(line) != 0 {
			return fmt.Errorf("%w: a chunk does not end where it should (%v)", errHead, err)
		}
	}
}

// chunkLength reads the line before a chunk.
func chunkLength(r *bufio.Reader) (int64, error) {
	line, err := readLine(r)
	if err != nil {
		return 0, err
	}
	digits, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseInt(string(digits), 16, 64)
	if err != nil || n < 0 || n > MaxBody {
		return 0, fmt.Errorf("%w: chunk length %.40q", errHead, line)
	}
	return n, nil
}

// extend reads n more bytes of the body. It grows with what has arrived: a length alone allocates little.
func (a *Answer) extend(r *bufio.Reader, n int64) error {
	if int64(len(a.Body))+n > MaxBody {
		return fmt.Errorf("%w: a body over %d bytes", errHead, MaxBody)
	}
	const step = 1 << 20
	for n > 0 {
		part := int(min(n, step))
		at := len(a.Body)
		a.Body = append(a.Body, make([]byte, part)...)
		if _, err := io.ReadFull(r, a.Body[at:]); err != nil {
			a.Body = a.Body[:at]
			return err
		}
		n -= int64(part)
	}
	return nil
}

// readLine reads a line without its end. It is valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}
