package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/shared/client"
)

// fails makes a gateway that hangs up at the first times calls of a path, and answers then. Receives that are no longer
// wanted end with stop.
func fails(t *testing.T, path string, times int, stop func()) *httptest.Server {
	var mu sync.Mutex
	given := false
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does net/http see that the client hangs up
		mu.Lock()
		defer mu.Unlock()
		if strings.HasSuffix(r.URL.Path, path) && times > 0 {
			times--
			panic(http.ErrAbortHandler)
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/members"):
			_, _ = io.WriteString(w, `{"member":"m","ttl":"10s","generation":1}`)
		case strings.HasSuffix(r.URL.Path, "/settle"):
			_, _ = io.WriteString(w, `{"results":[{},{}]}`)
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/receive") && !given:
			given = true
			_, _ = io.WriteString(w, strings.TrimPrefix(received, "200 "))
		case strings.HasSuffix(r.URL.Path, "/receive"):
			stop()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// Who follows goes on when the gateway goes away, at whichever call that is and for longer than one call is repeated.
func TestFollowOutlastsAGateway(t *testing.T) {
	for _, path := range []string{"/receive", "/settle"} {
		ctx, stop := context.WithCancel(t.Context())
		h := fails(t, path, 4, stop) // a call of 300 ms is made three times at most
		var out, errOut bytes.Buffer
		status := execute(ctx, []string{"consume", "t", "-g", "g", "-f", "--raw", "--timeout", "300ms", "--server", h.URL}, strings.NewReader(""), &out, &errOut)
		if status != exitOK || out.String() != "a\tb\n\xff\n" {
			t.Errorf("%s: status %d, %q, %q", path, status, out.String(), errOut.String())
		}
		for _, want := range []string{"the connection to the gateway " + h.URL + " broke; trying again\n", "the gateway " + h.URL + " answers; going on\n"} {
			if !strings.Contains(errOut.String(), want) {
				t.Errorf("%s: %q is not in %q", path, want, errOut.String())
			}
		}
	}
}

func TestFollowOutlastsAGatewayWhileItJoins(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	h := fails(t, "/members", 4, stop)
	var out, errOut bytes.Buffer
	status := execute(ctx, []string{"consume", "t", "-g", "g", "-f", "--member", "m", "--timeout", "300ms", "--server", h.URL}, strings.NewReader(""), &out, &errOut)
	if status != exitOK || !strings.Contains(errOut.String(), "trying again") || !strings.Contains(errOut.String(), "m owns no partition") {
		t.Errorf("status %d, %q", status, errOut.String())
	}
}

// What the SDK itself waits out is told, too.
func TestExecTellsOfOutages(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	h := fails(t, "/receive", 1, stop)
	var out, errOut bytes.Buffer
	status := execute(ctx, []string{"consume", "t", "-g", "g", "-f", "--exec", "cat", "--server", h.URL}, strings.NewReader(""), &out, &errOut)
	if status != exitOK || !strings.Contains(errOut.String(), "the connection to the gateway "+h.URL+" broke; ") || !strings.Contains(errOut.String(), "trying again\n") {
		t.Errorf("status %d, %q, %q", status, out.String(), errOut.String())
	}
}

// onNote calls do once a text is written.
type onNote struct {
	b    bytes.Buffer
	text string
	once sync.Once
	do   func()
}

func (o *onNote) Write(p []byte) (int, error) {
	n, err := o.b.Write(p)
	if strings.Contains(o.b.String(), o.text) {
		o.once.Do(o.do)
	}
	return n, err
}

// Lines that no gateway has seen are kept until there is one.
func TestLinesWaitForAGateway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var h *httptest.Server
	errOut := &onNote{text: "trying again", do: func() {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			return
		}
		h = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			n := strings.Count(string(body), `"value"`)
			_, _ = fmt.Fprintf(w, `{"results":[%s],"failed":0}`, strings.TrimSuffix(strings.Repeat(`{"id":"i"},`, n), ","))
		}))
		h.Listener = l
		h.Start()
	}}
	var out bytes.Buffer
	status := execute(t.Context(), []string{"publish", "t", "-l", "--server", "http://" + address}, strings.NewReader("a\nb\n"), &out, errOut)
	if h != nil {
		h.Close()
	}
	if status != exitOK || out.String() != "2 published, 0 failed\n" || !strings.Contains(errOut.b.String(), "the gateway http://"+address+" answers; going on\n") {
		t.Errorf("status %d, %q, %q", status, out.String(), errOut.b.String())
	}
}

// A fault that lasts is told now and then, and its end only once.
func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		n := &notes{w: &b, at: map[string]time.Time{}}
		n.well("http://x") // there was nothing
		fault := &client.Error{Code: "no_leader"}
		for range 12 {
			n.trying(fault, tryingAgain)
			time.Sleep(time.Second)
		}
		n.well("http://x")
		n.well("http://x")
		if got, want := b.String(), "no_leader; trying again\nno_leader; trying again\nthe gateway http://x answers; going on\n"; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

// A command that waits for an answer says so, once, and not where it has said what it waits for.
func TestSlowAnswers(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration
		fault error
		want  string
	}{
		{4 * time.Second, nil, ""},
		{20 * time.Second, nil, "no answer yet; waiting\n"},
		{20 * time.Second, &client.Error{Code: "no_leader"}, "no_leader; trying again\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var b bytes.Buffer
			n := &notes{w: &b, at: map[string]time.Time{}}
			s := &session{ctx: t.Context(), notes: n, timeout: time.Minute}
			_, done := s.call()
			if tt.fault != nil {
				n.trying(tt.fault, tryingAgain)
			}
			time.Sleep(tt.takes)
			done()
			if b.String() != tt.want {
				t.Errorf("%s: %q, want %q", tt.takes, b.String(), tt.want)
			}
		})
	}
}
