package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// What no handler sees is answered as everything else is: with a problem document.
func TestRequestsThatNoHandlerSees(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	address := strings.TrimPrefix(e.g.URL(), "http://")
	for _, x := range []struct {
		request string
		status  int
		code    string
		detail  string
	}{
		{"GET /v1/topics/%zz/messages HTTP/1.1\r\nHost: x\r\n\r\n", 400, "invalid_request", "two hexadecimal digits follow each %"},
		{"GET /v1/topics HTTP/1.1\r\n\r\n", 400, "invalid_request", "missing required Host header"},
		{"GET /v1/topics HTTP/1.1\r\nHost: x\r\nBad Header: x\r\n\r\n", 400, "invalid_request", "header"},
		{"POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: brotli\r\n\r\n", 400, "invalid_request", "transfer encoding"},
		{"GET /v1/topics HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", 431, "headers_too_large", "headers"},
		{"nonsense\r\n\r\n", 400, "invalid_request", "request line"},
	} {
		conn, err := net.Dial("tcp", address)
		e.check(err)
		_, _ = fmt.Fprint(conn, x.request) // the end may come before all of it is written
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		e.check(err)
		b, _ := io.ReadAll(resp.Body)
		conn.Close()
		a := string(b)
		if resp.StatusCode != x.status || resp.Header.Get("Content-Type") != problemType || !strings.Contains(a, `"code":"`+x.code+`"`) || !strings.Contains(a, x.detail) {
			t.Errorf("%.40q: %s %v %s", x.request, resp.Status, resp.Header, a)
		}
	}
	if a := e.call(http.MethodGet, "/v1/topics", ""); a.status != 200 {
		t.Errorf("others: %d %s", a.status, a.body)
	}
}
