package push

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/splashdam/splashdam/shared/mq"
)

const secretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func secret(t *testing.T) Secret {
	t.Helper()
	key, err := mq.ParseWebhookSecret(secretText)
	if err != nil {
		t.Fatal(err)
	}
	return Secret{Key: key}
}

func hookTo(t *testing.T, url string) *Hook {
	s := mq.DefaultWebhookSettings()
	s.URL, s.AllowPrivate, s.Timeout = url, true, mq.Duration(20*time.Second)
	return &Hook{Topic: "orders", Name: "shop", GroupID: 7, Group: "webhook.shop", Settings: s, Secrets: []Secret{secret(t)},
		Private: true, Partitions: []uint32{0}, Total: 1}
}

func eventOf(value string) *event {
	return &event{id: "EAEAAA", topic: "orders", group: "webhook.shop", attempt: 1, fence: "f1", stamp: 1_790_000_000e9, offset: 5,
		message: &mq.Message{Value: []byte(value), ContentType: "text/plain"}}
}

// attempt makes one attempt with connections that are closed at the end of the test.
func attempt(t *testing.T, h *Hook, e *event) answer {
	t.Helper()
	s := newSender(&h.Settings, h.Private && h.Settings.AllowPrivate, nil)
	t.Cleanup(s.close)
	return s.send(t.Context(), h, e)
}

func serve(t *testing.T, f http.HandlerFunc) string {
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s.URL
}

func TestRequestIsSignedAndComplete(t *testing.T) {
	var got *http.Request
	var body []byte
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})
	h := hookTo(t, url)
	h.Settings.Headers = map[string]string{"Authorization": "Bearer x"}
	e := eventOf("hello")
	e.message.Key, e.message.HasKey = []byte("ada\n"), true
	e.message.Headers = []mq.Header{{Name: "Source", Value: "shop"}, {Name: "ce-type", Value: "order placed"}}
	if a := attempt(t, h, e); a.status != 200 || a.err != nil {
		t.Fatalf("answer %+v", a)
	}
	for name, want := range map[string]string{"Authorization": "Bearer x", "Content-Type": "text/plain", "Webhook-Id": "EAEAAA",
		"Mq-Topic": "orders", "Mq-Group": "webhook.shop", "Mq-Attempt": "1", "Mq-Partition": "0", "Mq-Offset": "5", "Mq-Fence": "f1", "Mq-Key": "ada%0A",
		"Mq-Escaped": "Mq-Key", "Mq-Header-Source": "shop", "Ce-Type": "order%20placed", "Mq-Timestamp": "2026-09-21T14:13:20Z",
		"User-Agent": userAgent, "Ce-Id": "", "Accept-Encoding": ""} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	v, err := standardwebhooks.NewWebhook(secretText)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Verify(body, got.Header); err != nil || string(body) != "hello" {
		t.Errorf("%q: %v", body, err)
	}
	if v.Verify([]byte("hallo"), got.Header) == nil {
		t.Error("the signature fits another body too")
	}
}

func TestCloudEvents(t *testing.T) {
	var got http.Header
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	h := hookTo(t, url)
	h.Settings.Format = mq.WebhookCloudEvents
	e := eventOf("{}")
	e.message.Key, e.message.HasKey = []byte("é"), true
	e.message.Headers = []mq.Header{{Name: "ce-type", Value: "com.example.order"}, {Name: "ce-subject", Value: "42"}}
	attempt(t, h, e)
	for name, want := range map[string]string{"Ce-Specversion": "1.0", "Ce-Id": "EAEAAA", "Ce-Source": "/v1/topics/orders",
		"Ce-Type": "com.example.order", "Ce-Subject": "42", "Ce-Time": "2026-09-21T14:13:20Z", "Ce-Partitionkey": "%C3%A9", "Webhook-Id": "EAEAAA"} {
		if v := got.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
}

// While a secret is rotated both sign; then only the new one.
func TestRotationSignsWithBoth(t *testing.T) {
	h := hookTo(t, "https://example.com/")
	other := []byte("another key of 32 bytes, or so..")
	now := time.Now()
	h.Secrets = []Secret{{Key: other}, {Key: secret(t).Key, Until: now.Add(time.Minute)}}
	verify := func(at time.Time) (first, second error) {
		r, err := newRequest(t.Context(), h, eventOf("v"), at)
		if err != nil {
			t.Fatal(err)
		}
		a, _ := standardwebhooks.NewWebhookRaw(other)
		b, _ := standardwebhooks.NewWebhookRaw(secret(t).Key)
		return a.VerifyIgnoringTimestamp([]byte("v"), r.Header), b.VerifyIgnoringTimestamp([]byte("v"), r.Header)
	}
	if a, b := verify(now); a != nil || b != nil {
		t.Errorf("in the overlap: %v, %v", a, b)
	}
	if a, b := verify(now.Add(time.Minute)); a != nil || b == nil {
		t.Errorf("after the overlap: %v, %v", a, b)
	}
}

// A retry days later has its own timestamp and a signature over it, and the same id.
func TestMuseum31EachAttemptIsSignedAnew(t *testing.T) {
	h := hookTo(t, "https://example.com/")
	v, _ := standardwebhooks.NewWebhook(secretText)
	now := time.Now()
	first, _ := newRequest(t.Context(), h, eventOf("v"), now.Add(-72*time.Hour))
	again, err := newRequest(t.Context(), h, eventOf("v"), now)
	if err != nil {
		t.Fatal(err)
	}
	if first.Header.Get("Webhook-Id") != again.Header.Get("Webhook-Id") {
		t.Error("the id changed")
	}
	if got := again.Header.Get("Webhook-Timestamp"); got != strconv.FormatInt(now.Unix(), 10) {
		t.Errorf("timestamp %s", got)
	}
	if err := v.Verify([]byte("v"), again.Header); err != nil {
		t.Errorf("a receiver that wants recent timestamps refuses the retry: %v", err)
	}
	if v.Verify([]byte("v"), first.Header) == nil {
		t.Error("the receiver does not mind old timestamps, so this test shows nothing")
	}
}

// An answer that comes after its attempt timed out is not taken for that of the next attempt.
func TestMuseum39LateAnswerIsNobodyElses(t *testing.T) {
	late := make(chan struct{})
	var n atomic.Int32
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if n.Add(1) == 1 {
			<-late
			w.WriteHeader(http.StatusOK) // nobody waits for it any more
			return
		}
		close(late)
		w.WriteHeader(http.StatusTeapot)
	})
	h := hookTo(t, url)
	s := newSender(&h.Settings, true, nil)
	t.Cleanup(s.close)
	short := *h
	short.Settings.Timeout = mq.Duration(50 * time.Millisecond)
	if a := s.send(t.Context(), &short, eventOf("one")); a.status != 0 || a.err == nil {
		t.Fatalf("the first one: %+v", a)
	}
	if a := s.send(t.Context(), h, eventOf("two")); a.status != http.StatusTeapot {
		t.Fatalf("the second one: %+v", a)
	}
}

func TestHostileEndpoints(t *testing.T) {
	block := make(chan struct{})
	var reached atomic.Bool
	inside := serve(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
	tests := []struct {
		name   string
		f      http.HandlerFunc
		status int
		says   string
	}{
		{"hangs", func(http.ResponseWriter, *http.Request) { <-block }, 0, "no answer within"},
		{"drips", func(w http.ResponseWriter, r *http.Request) { // the status has come, and decides
			for {
				if _, err := w.Write([]byte(".")); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				select {
				case <-block:
					return
				case <-r.Context().Done():
					return
				case <-time.After(time.Millisecond):
				}
			}
		}, 200, ""},
		{"huge", func(w http.ResponseWriter, r *http.Request) {
			for chunk := bytes.Repeat([]byte("x"), 64<<10); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, 200, ""},
		{"huge headers", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 200<<10))
		}, 0, "header"},
		{"resets", func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_ = c.(*net.TCPConn).SetLinger(0)
				_ = c.Close()
			}
		}, 0, ""},
		{"garbage", func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = c.Write([]byte("220 smtp ready\r\n\x1b[31m\r\n"))
				_ = c.Close()
			}
		}, 0, "malformed"},
		{"redirects", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside, http.StatusTemporaryRedirect)
		}, 307, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := hookTo(t, serve(t, tt.f))
			if tt.name == "hangs" { // the others do something before that would be over, on the busiest machine too
				h.Settings.Timeout = mq.Duration(100 * time.Millisecond)
			}
			t.Cleanup(func() {
				select {
				case <-block:
				default:
					if tt.name == "hangs" {
						close(block)
					}
				}
			})
			a := attempt(t, h, eventOf("v"))
			if a.status != tt.status || (a.err != nil) != (tt.status == 0) {
				t.Errorf("answer %+v", a)
			}
			if a.err != nil && !strings.Contains(a.err.Error(), tt.says) || strings.ContainsRune(a.text, '\x1b') {
				t.Errorf("it says %q, %v", a.text, a.err)
			}
		})
	}
	if reached.Load() {
		t.Error("the redirect was followed")
	}
}

// What a refusal says is shown as one printable line of bounded length.
func TestRefusalsAreShownSafely(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "out of\nstock\x1b[31m\x00 "+strings.Repeat("é", 400))
	})
	a := attempt(t, hookTo(t, url), eventOf("v"))
	if a.status != 503 || a.retryAfter != 7*time.Second || !strings.HasPrefix(a.text, "out of stock[31m ") || len(a.text) > shown {
		t.Errorf("answer %+v", a)
	}
}

func TestPrivateAddressesAreRefusedAtTheDial(t *testing.T) {
	var reached atomic.Bool
	url := serve(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
	for _, url := range []string{url, strings.Replace(url, "127.0.0.1", "localhost", 1), strings.Replace(url, "127.0.0.1", "[::ffff:127.0.0.1]", 1)} {
		for _, who := range []string{"webhook", "gateway"} {
			h := hookTo(t, url)
			h.Settings.AllowPrivate, h.Private = who != "webhook", who != "gateway"
			a := attempt(t, h, eventOf("v"))
			if a.err == nil || !strings.Contains(a.err.Error(), "loopback") || a.status != 0 {
				t.Errorf("%s, not allowed by the %s: %+v", url, who, a)
			}
		}
	}
	// A proxy of the environment would dial in our place.
	t.Setenv("HTTP_PROXY", url)
	t.Setenv("http_proxy", url)
	h := hookTo(t, "http://203.0.113.7/")
	h.Settings.AllowPrivate = false
	if a := attempt(t, h, eventOf("v")); a.err == nil {
		t.Errorf("through a proxy: %+v", a)
	}
	if reached.Load() {
		t.Error("the private endpoint was reached")
	}
}

// dribble is a name server on loopback that answers with the next of its addresses each time.
type dribble struct {
	mu    sync.Mutex
	addrs []string
	asked int
}

func (d *dribble) resolver(t *testing.T) *net.Resolver {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = pc.WriteTo(d.answer(buf[:n]), from)
		}
	}()
	t.Cleanup(func() {
		_ = pc.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

// answer makes an answer of a question: an A record for type 1, none for others.
func (d *dribble) answer(q []byte) []byte {
	end := 12
	for q[end] != 0 {
		end += int(q[end]) + 1
	}
	kind := q[end+2]
	question := q[12 : end+5]
	head := []byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}
	if kind != 1 {
		return append(head, question...)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	addr := net.ParseIP(d.addrs[min(d.asked, len(d.addrs)-1)]).To4()
	d.asked++
	head[7] = 1
	out := append(head, question...)
	out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(out, addr...)
}

// A name that meant a public address when the webhook was made, and means a private one now, leads nowhere: the
// address that is dialled is what counts.
func TestRebindingLeadsNowhere(t *testing.T) {
	var reached atomic.Bool
	url := serve(t, func(http.ResponseWriter, *http.Request) { reached.Store(true) })
	_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	d := &dribble{addrs: []string{"192.0.2.99", "127.0.0.1"}}
	h := hookTo(t, "http://rebind.example.:"+port+"/")
	h.Settings.AllowPrivate, h.Settings.Timeout = false, mq.Duration(5*time.Second)
	s := newSender(&h.Settings, false, d.resolver(t))
	t.Cleanup(s.close)
	for range 2 {
		if a := s.send(t.Context(), h, eventOf("v")); a.err == nil || !strings.Contains(a.err.Error(), "not sent") {
			t.Errorf("answer %+v", a)
		}
	}
	d.mu.Lock()
	asked := d.asked
	d.mu.Unlock()
	if asked < 2 || reached.Load() {
		t.Errorf("%d questions; the private endpoint was reached: %v", asked, reached.Load())
	}
	// The same name is dialled where private addresses are allowed: the refusals above are the guard's.
	open := newSender(&h.Settings, true, d.resolver(t))
	t.Cleanup(open.close)
	if a := open.send(t.Context(), h, eventOf("v")); a.status != 200 || !reached.Load() {
		t.Errorf("allowed: %+v", a)
	}
}

// The endpoint's span joins the trace of the message; what is no traceparent would only break its library.
func TestTraceparentOfARequest(t *testing.T) {
	const valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for value, want := range map[string]string{valid: valid, "mine": ""} {
		e := eventOf("v")
		e.message.Headers = []mq.Header{{Name: "traceparent", Value: value}}
		r, err := newRequest(t.Context(), hookTo(t, "https://example.com/"), e, time.Now())
		if err != nil || r.Header.Get("traceparent") != want || r.Header.Get("Mq-Header-Traceparent") != value {
			t.Errorf("%q: %v, %v", value, r.Header, err)
		}
	}
}
