package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// firstBody is what a body of unknown length gets at first, mostKept what goes back into the pool.
const (
	firstBody = 16 << 10
	mostKept  = 2 << 20
)

// body is a request body in memory. Release it when nothing points into it any more.
type body struct {
	b    []byte
	held int64 // reserved of Gateway.buffered
	g    *Gateway
}

// bodyCodecs are the pools of what bodies are read with.
type bodyCodecs struct {
	buffers sync.Pool // *[]byte
	gzip    sync.Pool // *gzip.Reader
	zstd    sync.Pool // *zstd.Decoder
}

// release gives the memory back.
func (b *body) release() {
	if b.held > 0 {
		b.g.buffered.Release(b.held)
		b.held = 0
	}
	if cap(b.b) > 0 && cap(b.b) <= mostKept {
		buf := b.b[:0]
		b.g.codecs.buffers.Put(&buf)
	}
	b.b = nil
}

// readBody reads a whole body, unpacked, of at most limit bytes in either form. A larger one is tooLarge:
// the connection lives on if what is left of it is small, net/http sees to that. In memory at once are at
// most Config.MaxBuffered bytes of bodies; beyond it callers get 503.
func (g *Gateway) readBody(c echo.Context, limit int64, tooLarge func() error) (*body, error) {
	r := c.Request()
	out := &body{g: g}
	if r.ContentLength == 0 {
		return out, nil
	}
	if r.ContentLength > limit {
		return nil, tooLarge()
	}
	control := http.NewResponseController(c.Response().Writer)
	_ = control.SetReadDeadline(time.Now().Add(g.cfg.BodyTimeout)) // where it is not supported there is none
	in, done, err := g.decoded(contentEncoding(r.Header), r.Body, limit)
	if err != nil {
		return nil, err
	}
	defer done()
	size := r.ContentLength + 1 // room to see the end
	if size < 1 || in != io.Reader(r.Body) {
		size = firstBody
	}
	if err := out.read(in, size, limit, tooLarge); err != nil {
		out.release()
		// net/http ends the context of a request whose body does not come in time, as it does when the caller has gone.
		if ctxErr := r.Context().Err(); ctxErr != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, ctxErr
		}
		return nil, bodyError(err)
	}
	// net/http reads on in the background to notice a client that left, and must not take the deadline for
	// that. After an error it stays: what is left of the body is read against it.
	_ = control.SetReadDeadline(time.Time{})
	return out, nil
}

// read fills b.b. size is what to begin with.
func (b *body) read(in io.Reader, size, limit int64, tooLarge func() error) error {
	if buf, ok := b.g.codecs.buffers.Get().(*[]byte); ok {
		b.b = *buf
	}
	for {
		if err := b.grow(min(max(size, int64(len(b.b))+1), limit+1)); err != nil {
			return err
		}
		n, err := in.Read(b.b[len(b.b):cap(b.b)])
		b.b = b.b[:len(b.b)+n]
		switch {
		case int64(len(b.b)) > limit:
			return tooLarge()
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case len(b.b) == cap(b.b):
			size = 2 * int64(cap(b.b))
		}
	}
}

// grow makes room for size bytes in all, within the gateway's bound.
func (b *body) grow(size int64) error {
	if size < int64(cap(b.b)) {
		size = int64(cap(b.b))
	}
	if more := size - b.held; more > 0 {
		if !b.g.buffered.TryAcquire(more) {
			e := mqerr.New(mqerr.Overloaded, "too many bodies are being read")
			e.RetryAfter = time.Second
			return e
		}
		b.held = size
	}
	if size > int64(cap(b.b)) {
		b.b = append(make([]byte, 0, size), b.b...)
	}
	return nil
}

func bodyError(err error) error {
	var e *mqerr.Error
	var h *http.MaxBytesError
	switch {
	case errors.As(err, &e), errors.As(err, &h), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return mqerr.New(mqerr.InvalidRequest, "the body did not arrive in time")
	}
	return mqerr.New(mqerr.InvalidRequest, "the body can't be read: %s", mqerr.Plain(err))
}

// contentEncoding is what a body is packed with; codings have no case, and several are named in one value.
func contentEncoding(h http.Header) string {
	return strings.ToLower(strings.TrimSpace(strings.Join(h.Values(echo.HeaderContentEncoding), ", ")))
}

// decoded wraps a body by its Content-Encoding, of at most limit bytes before it is unpacked. done gives the decoder back.
func (g *Gateway) decoded(enc string, body io.ReadCloser, limit int64) (in io.Reader, done func(), err error) {
	switch enc {
	case "", "identity":
		return body, func() {}, nil
	case "gzip", "x-gzip":
		z, ok := g.codecs.gzip.Get().(*gzip.Reader)
		if !ok {
			z = new(gzip.Reader)
		}
		if err := z.Reset(http.MaxBytesReader(nil, body, limit)); err != nil {
			return nil, nil, mqerr.New(mqerr.InvalidRequest, "the body is not gzip: %s", mqerr.Plain(err))
		}
		return z, func() { g.codecs.gzip.Put(z) }, nil
	case "zstd":
		z, ok := g.codecs.zstd.Get().(*zstd.Decoder)
		if !ok {
			// One goroutine, and windows of 8 MiB at most: a decoder must not cost what a body may not.
			z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(8<<20))
			if err != nil {
				return nil, nil, err
			}
		}
		if err := z.Reset(http.MaxBytesReader(nil, body, limit)); err != nil {
			return nil, nil, mqerr.New(mqerr.InvalidRequest, "the body is not zstd: %s", mqerr.Plain(err))
		}
		return z, func() {
			if z.Reset(bytes.NewReader(nil)) == nil {
				g.codecs.zstd.Put(z)
			}
		}, nil
	default:
		return nil, nil, mqerr.New(mqerr.UnsupportedMedia, "Content-Encoding is gzip, zstd or none, not %.40q", enc)
	}
}

// mostDrained bounds what is read and dropped of the body of a request that is refused.
const mostDrained = 64 << 20

// drain reads the rest of a refused request's body, so that a client that sends everything before it reads the
// answer gets it, and can go on with the same connection: net/http itself reads no more than 256 KiB and
// closes. The read deadline that is set bounds the time. Who asked first (Expect) has not sent anything.
func drain(r *http.Request) {
	if r.ContentLength == 0 || r.ContentLength > mostDrained || r.Header.Get("Expect") != "" {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, mostDrained) // a failure is net/http's to find
}

// bodyTooLarge is the error of a body beyond a call's limit.
func bodyTooLarge(limit int64) func() error {
	return func() error { return mqerr.New(mqerr.BodyTooLarge, "the body, unpacked, may have %d bytes", limit) }
}
