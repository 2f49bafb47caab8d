package gateway

import (
	"errors"
	"io"
	"math"
	"net/http"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// streamBody is the body of a publish stream, unpacked as it comes. What is unpacked is not bounded, as a stream is not: the
// lines are, and the decoders' windows.
type streamBody struct {
	g    *Gateway
	enc  string
	raw  recordedBody
	in   io.Reader // nil until the first read: a decoder waits for its header, and the answer must have begun by then
	done func()
	err  error // why the decoder gave up
}

// recordedBody keeps how a body ended, to tell a broken connection from a broken packing.
type recordedBody struct {
	io.ReadCloser
	err error
}

func (r *recordedBody) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	if err != nil {
		r.err = err
	}
	return n, err
}

func newStreamBody(g *Gateway, r *http.Request) *streamBody {
	return &streamBody{g: g, enc: contentEncoding(r.Header), raw: recordedBody{ReadCloser: r.Body}}
}

// known refuses a packing that the gateway does not know.
func (s *streamBody) known() error {
	switch s.enc {
	case "", "identity", "gzip", "x-gzip", "zstd":
		return nil
	}
	return mqerr.New(mqerr.UnsupportedMedia, "Content-Encoding is gzip, zstd or none, not %.40q", s.enc)
}

// Read implements io.Reader.
func (s *streamBody) Read(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.in == nil {
		in, done, err := s.g.decoded(s.enc, &s.raw, math.MaxInt64)
		if err != nil {
			s.err = errors.New(asError(err).Detail) // an error of this package would be one of a line, and the next one be read
			return 0, s.err
		}
		s.in, s.done = in, done
	}
	n, err := s.in.Read(b)
	if err != nil {
		s.err = err
	}
	return n, err
}

// close gives the decoder back. It says what is wrong with the packing, if that is what ended the stream.
func (s *streamBody) close() *mqerr.Error {
	if s.done != nil {
		s.done()
	}
	if s.err == nil || errors.Is(s.err, io.EOF) || s.raw.err != nil && !errors.Is(s.raw.err, io.EOF) {
		return nil
	}
	return mqerr.New(mqerr.InvalidRequest, "the stream can't be unpacked (%s): %s", s.enc, mqerr.Plain(s.err))
}
