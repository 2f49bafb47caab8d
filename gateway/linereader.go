package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"golang.org/x/sync/semaphore"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// lineReader cuts a stream into lines of a bounded length. Release it at the end.
type lineReader struct {
	in    *bufio.Reader
	limit int
	// memory is where the bytes of lines that in's buffer can't hold are reserved: streams are many, and each
	// may stop within its longest line.
	memory *semaphore.Weighted
	long   []byte
	held   int64 // reserved for long
}

// more says whether a whole line is there already.
func (l *lineReader) more() bool {
	b, _ := l.in.Peek(l.in.Buffered())
	return bytes.IndexByte(b, '\n') >= 0
}

// next is the next line without white space around it, which may be nothing. The last one may come with
// io.EOF. A line beyond the limit, or one that there is no memory for now, is passed over to its end, and an
// *mqerr.Error says why.
func (l *lineReader) next() ([]byte, error) {
	if cap(l.long) > mostKept {
		l.release()
	}
	line, err := l.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err // half a line is no message
		}
		return bytes.TrimSpace(line), err
	}
	l.long = l.long[:0]
	dropped := l.keep(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.in.ReadSlice('\n')
		if dropped == nil {
			dropped = l.keep(line)
		}
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case dropped != nil:
		return nil, dropped
	}
	return bytes.TrimSpace(l.long), err
}

// keep adds a piece of a long line.
func (l *lineReader) keep(piece []byte) *mqerr.Error {
	size := len(l.long) + len(piece)
	if size > l.limit {
		return mqerr.New(mqerr.MessageTooLarge, "a line of this stream has at most %d bytes", l.limit)
	}
	if size > cap(l.long) {
		size = min(2*size, l.limit)
		more := int64(size) - l.held
		if !l.memory.TryAcquire(more) {
			return mqerr.New(mqerr.Overloaded, "too many bytes are being read")
		}
		l.held += more
		l.long = append(make([]byte, 0, size), l.long...)
	}
	l.long = append(l.long, piece...)
	return nil
}

// release gives the memory of long lines back.
func (l *lineReader) release() {
	l.memory.Release(l.held)
	l.long, l.held = nil, 0
}
