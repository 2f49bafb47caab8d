package gateway

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

const (
	// pieceBytes is how much a client has to take within Config.StallTimeout.
	pieceBytes = 64 << 10
	// answerTime bounds an answer that ends, however steadily its client reads.
	answerTime = 90 * time.Second
)

// steady writes an answer piece by piece, each with a deadline: a client that stalls loses its connection soon and
// holds no memory here, one that reads gets as long as it needs up to a bound.
type steady struct {
	w       http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	end     time.Time // zero for none
	broken  bool      // something could not be written: nobody is left to tell anything
}

// Write writes all of b; it does not flush.
func (s *steady) Write(b []byte) (n int, err error) {
	for {
		if err := s.deadline(); err != nil {
			return n, s.failed(err)
		}
		piece := b[n:min(n+pieceBytes, len(b))]
		m, err := s.w.Write(piece)
		if n += m; err != nil || n >= len(b) {
			return n, s.failed(err)
		}
	}
}

// Flush sends what was written on its way.
func (s *steady) Flush() error {
	if err := s.deadline(); err != nil {
		return s.failed(err)
	}
	return s.failed(s.control.Flush())
}

func (s *steady) failed(err error) error {
	s.broken = s.broken || err != nil
	return err
}

func (s *steady) deadline() error {
	at := time.Now().Add(s.stall)
	if !s.end.IsZero() && s.end.Before(at) {
		at = s.end
	}
	if err := s.control.SetWriteDeadline(at); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// streaming is a writer for an answer that has no end of its own.
func (g *Gateway) streaming(c echo.Context) *steady {
	return &steady{w: c.Response(), control: http.NewResponseController(c.Response().Writer), stall: g.cfg.StallTimeout}
}

// blob is echo's Blob for answers that may be large.
func (g *Gateway) blob(c echo.Context, status int, kind string, b []byte) error {
	if len(b) <= pieceBytes {
		return c.Blob(status, kind, b) // the socket takes that at once
	}
	s := g.streaming(c)
	s.end = time.Now().Add(answerTime)
	c.Response().Header().Set(echo.HeaderContentType, kind)
	c.Response().WriteHeader(status)
	_, err := s.Write(b)
	return err
}
