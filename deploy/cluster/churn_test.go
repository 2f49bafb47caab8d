package cluster

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// visits is how many connections TestEndVisitors makes and drops.
var visits = flag.Int("visits", 600, "connections that come and go in TestEndVisitors")

// visitors connect, take a message or do not, and drop the connection in one way or another.
type visitors struct {
	t       *testing.T
	urls    []string
	next    atomic.Int64
	failed  atomic.Int64
	example atomic.Value
}

// some makes n visits, 16 at a time.
func (v *visitors) some(n int) {
	var all sync.WaitGroup
	until := v.next.Load() + int64(n)
	for range 16 {
		all.Go(func() {
			for i := v.next.Add(1); i <= until; i = v.next.Add(1) {
				if err := v.visit(int(i)); err != nil {
					v.failed.Add(1)
					v.example.Store(err.Error())
				}
			}
		})
	}
	all.Wait()
	v.next.Store(until)
}

func (v *visitors) visit(i int) error {
	url := v.urls[i%len(v.urls)]
	if i%3 == 2 {
		return v.socket(i, url)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	if i%4 == 0 { // some drop without a goodbye
		_ = conn.(*net.TCPConn).SetLinger(0)
	}
	request := "GET /v1/topics/t/groups/g/stream?max_in_flight=5 HTTP/1.1\r\nHost: x\r\n\r\n"
	if i%3 == 1 {
		request = "POST /v1/topics/t/groups/g/receive?max=5&wait=30s HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	}
	if _, err := io.WriteString(conn, request); err != nil || i%2 == 0 {
		return err
	}
	if i%3 == 1 { // a long poll may wait for all its time
		return nil
	}
	_, err = conn.Read(make([]byte, 4096))
	return err
}

func (v *visitors) socket(i int, url string) error {
	ctx, cancel := context.WithTimeout(v.t.Context(), hang)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, url+"/v1/stream", nil)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	for k := range 2 {
		subscribe := fmt.Appendf(nil, `{"type":"subscribe","subscription":"%d","topic":"t","group":"g","credit":3}`, k)
		if err := conn.Write(ctx, websocket.MessageText, subscribe); err != nil {
			return err
		}
	}
	if i%2 == 0 {
		_, _, err = conn.Read(ctx)
	}
	return err
}

// footing is what the process has when it rests.
func footing() (goroutines int, heap int64) {
	runtime.GC()
	runtime.GC() // what finalizers let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), int64(m.HeapAlloc)
}

// Connections that come and go by the thousand leave nothing behind: no goroutine, no memory, no lease. With
// -visits 10000 it is the run of docs/BENCHMARKS.md.
func TestEndVisitors(t *testing.T) {
	const messages = 100
	c := start(t, Options{Nodes: 1, Gateways: 2, Coordinators: 1})
	one := via(t, c, 1)
	one.topic("t", `{"partitions":4}`)
	one.call(201, "PUT", "/v1/topics/t/groups/g", `{"lease":"500ms","max_attempts":0,"backoff":{"initial":"0s","max":"0s","jitter":0}}`, nil)
	one.publishMany("t", "v", messages)
	v := &visitors{t: t, urls: c.URLs()}
	rest := func(than int) (goroutines int, heap int64) {
		eventually(t, "leases come back", func() bool {
			g := one.group("t", "g")
			return g.InFlight == 0 && g.Waiting == 0 && g.Ready == messages
		})
		for deadline := time.Now().Add(hang); time.Now().Before(deadline); {
			if goroutines, heap = footing(); goroutines <= than {
				break
			}
			one.group("t", "g") // it takes some time
		}
		return goroutines, heap
	}
	v.some(*visits / 4) // what is made once, and kept
	before, heapBefore := rest(1 << 20)
	began := time.Now()
	v.some(*visits - *visits/4)
	took := time.Since(began)
	const spare = 20 // those of idle connections between the tiers come and go
	after, heapAfter := rest(before + spare)
	t.Logf("%d visits, the last three quarters in %s: %d goroutines, then %d; heap %.1f MB, then %.1f MB; %d visits failed",
		*visits, took.Round(time.Millisecond), before, after, float64(heapBefore)/1e6, float64(heapAfter)/1e6, v.failed.Load())
	if after > before+spare {
		t.Errorf("%d goroutines are left of %d visits", after-before, *visits)
	}
	if grown := heapAfter - heapBefore; grown > 8<<20+1<<10*int64(*visits) {
		t.Errorf("%d bytes are left of %d visits", grown, *visits)
	}
	if n := v.failed.Load(); n > 0 {
		t.Errorf("%d visits failed: %v", n, v.example.Load())
	}
	got := one.receiveN("t", "g", messages, "lease=1m")
	one.settle("ack", got, "")
	if g := one.group("t", "g"); g.Lag != 0 || fmt.Sprint(values(got)) != fmt.Sprint(numbered("v", messages)) {
		t.Errorf("%+v after %v", g, values(got))
	}
}
