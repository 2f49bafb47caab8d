package gateway

import (
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
)

// Museum 32: the log records a client address that the caller chose. No header has a say in it: it is the peer's.
func TestMuseum32TheCallersAddressIsThePeers(t *testing.T) {
	e := newEnv(t)
	e.topic("t", onePartition)
	var said string
	router := e.g.newEcho()
	router.GET("/museum", func(c echo.Context) error {
		said = c.RealIP()
		return nil
	})
	r := httptest.NewRequest("GET", "/museum", nil)
	r.RemoteAddr = "192.0.2.7:4711"
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Client-Ip"} {
		r.Header.Set(name, "203.0.113.9")
	}
	router.ServeHTTP(httptest.NewRecorder(), r)
	if said != "192.0.2.7" {
		t.Errorf("a caller who says that it is 203.0.113.9 is recorded as %s", said)
	}
}

// Museum 40: a topic named `..` that was deleted removed the data directory. No such name is taken, however it is written, and
// nothing that is made of a name leaves the directory of names: it is letters, digits and a few marks.
func TestMuseum40NamesAreNoPaths(t *testing.T) {
	e := newEnv(t)
	e.topic("t", onePartition)
	for _, name := range []string{"..", "%2e%2e", "..%2f..", "%2e%2e%2fnode-1", ".", "%2fetc", "a%00b", "a%2f..%2fb", "%5c..%5c"} {
		for _, x := range []struct{ method, path string }{
			{"DELETE", "/v1/topics/" + name}, {"PUT", "/v1/topics/" + name}, {"POST", "/v1/topics/" + name + "/messages"},
			{"DELETE", "/v1/topics/t/groups/" + name}, {"POST", "/v1/topics/t/groups/" + name + "/receive"},
		} {
			if r := e.call(x.method, x.path, nil); r.status < 400 || r.status >= 500 {
				t.Errorf("%s %s: %d %s", x.method, x.path, r.status, r.body)
			}
		}
	}
	if topics := e.g.view.Topics(); len(topics) != 1 || topics[0].Name != "t" {
		t.Errorf("the topics are %v now", topics)
	}
}
