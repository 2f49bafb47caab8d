package gateway

import (
	"bytes"
	"fmt"
	"net"
	"strings"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// unseen is a listener whose connections answer requests that net/http refuses before any handler sees them, because of a path with
// "%zz" or without a host, as everything else is answered.
type unseen struct{ net.Listener }

func (l unseen) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
		return unseenConn{tcp}, nil
	}
	return conn, err
}

// unseenConn is a connection of such a listener.
type unseenConn struct{ *net.TCPConn }

// netHTTPSays ends the head of an answer that net/http writes itself, in one piece and with the connection's end. No handler's
// answer has these headers alone.
var netHTTPSays = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

func (c unseenConn) Write(b []byte) (int, error) {
	head, said, ok := bytes.Cut(b, netHTTPSays)
	if !ok || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) || bytes.IndexByte(head, '\r') >= 0 {
		return c.TCPConn.Write(b)
	}
	if _, err := c.TCPConn.Write(unseenAnswer(string(head[len("HTTP/1.1 "):]), string(said))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// unseenAnswer is the answer for a status ("400 Bad Request") with what net/http says of it.
func unseenAnswer(status, said string) []byte {
	e := mqerr.New(mqerr.InvalidRequest, "the request line or a header is malformed; in a path two hexadecimal digits follow each %%")
	switch _, why, ok := strings.Cut(said, ": "); {
	case strings.HasPrefix(status, "431 "):
		e = mqerr.New(mqerr.HeadersTooLarge, "the headers of the request are too large")
	case ok:
		e = mqerr.New(mqerr.InvalidRequest, "%s", why)
	case !strings.HasPrefix(status, "400 "):
		e = mqerr.New(mqerr.InvalidRequest, "%s", said)
	}
	body := appendProblem(nil, e, "")
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", e.Code.Status(),
		statusText(status, e.Code.Status()), problemType, len(body), body)
}

// statusText is the reason of a status line.
func statusText(status string, code int) string {
	if text, ok := strings.CutPrefix(status, fmt.Sprintf("%d ", code)); ok {
		return text
	}
	return "Bad Request"
}
