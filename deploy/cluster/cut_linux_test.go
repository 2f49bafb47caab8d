package cluster

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/client"
)

// cut runs TestEndCutNetwork; "inside" is for the process that it starts.
var cut = flag.String("cut", "", `"run": cut a client's network in TestEndCutNetwork (two minutes; Linux, with ip and user namespaces)`)

// far is where the client sits whose network is cut.
const far = "127.0.0.9"

// A client whose network vanishes without a word (no FIN, no RST) loses its connections within a minute on both sides; its
// messages go to others, and when the network is back its consumers go on by themselves. It needs a network namespace of
// its own, so a process in one does it, and only if -cut asks for it: what it measures are timeouts of half a minute.
func TestEndCutNetwork(t *testing.T) {
	switch *cut {
	case "inside":
		cutNetwork(t)
	case "run":
		cmd := exec.Command(os.Args[0], "-test.run=^TestEndCutNetwork$", "-test.v", "-cut=inside")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("%s", out)
	default:
		t.Log("nothing is cut without -cut run")
	}
}

// ip changes the namespace's network.
func ip(t *testing.T, args string) {
	t.Helper()
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", args, err, out)
	}
}

// farConsumer is one of the SDK at the far end.
type farConsumer struct {
	group string
	run   func(*client.Consumer) func(context.Context) error
	mu    sync.Mutex
	got   map[string]int
	news  chan struct{}
}

func (f *farConsumer) handle(_ context.Context, d client.Delivery) error {
	f.mu.Lock()
	f.got[string(d.Value)]++
	f.mu.Unlock()
	select {
	case f.news <- struct{}{}:
	default:
	}
	return nil
}

// until waits until n different messages were handled.
func (f *farConsumer) until(t *testing.T, n int) {
	t.Helper()
	late := time.After(2 * hang)
	for {
		f.mu.Lock()
		have := len(f.got)
		f.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-f.news:
		case <-late:
			t.Fatalf("%s has %d messages, want %d", f.group, have, n)
		}
	}
}

func cutNetwork(t *testing.T) {
	ip(t, "link set lo up")
	ip(t, "rule add pref 100 lookup local") // below those that cut
	ip(t, "rule del pref 0")
	c := start(t, Options{Nodes: 1, Gateways: 1, Coordinators: 1})
	near := via(t, c, 1)
	near.topic("t", `{"partitions":1}`)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(far)}, Timeout: 5 * time.Second}
	transport := client.NewTransport()
	transport.DialContext = dialer.DialContext
	sdk, err := client.New(client.Options{Servers: c.URLs(), HTTP: &http.Client{Transport: transport}})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var consumers sync.WaitGroup
	defer consumers.Wait()
	defer stop()
	all := []*farConsumer{{group: "polls", run: func(k *client.Consumer) func(context.Context) error { return k.Run }},
		{group: "events", run: func(k *client.Consumer) func(context.Context) error { return k.RunStream }},
		{group: "sockets", run: func(k *client.Consumer) func(context.Context) error { return k.RunSocket }}}
	for _, f := range all {
		f.got, f.news = map[string]int{}, make(chan struct{}, 1)
		k := sdk.Consumer("t", f.group, f.handle, client.ConsumerOptions{Lease: 20 * time.Second})
		consumers.Go(func() { _ = f.run(k)(ctx) })
	}
	// One that takes and settles nothing, as if it hung.
	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(c.URLs()[0], "http://"))
	must(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "GET /v1/topics/t/groups/hung/stream?max_in_flight=2&lease=20s HTTP/1.1\r\nHost: x\r\n\r\n")
	must(t, err)
	near.publishMany("t", "v", 10)
	lines := bufio.NewScanner(conn)
	for n := 0; n < 2 && lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			n++
		}
	}
	for _, f := range all {
		f.until(t, 10)
	}
	streams := func() (n float64) { return gaugeOf(t, c, "splashdam_gateway_streams") }
	if n := streams(); n != 3 {
		t.Fatalf("%v streams are open, want 3", n)
	}

	began := time.Now()
	ip(t, "rule add pref 10 to "+far+" blackhole")
	ip(t, "rule add pref 11 from "+far+" blackhole")
	near.publishMany("t", "w", 10) // what is on its way to the far end does not arrive
	got, closed := map[string]int{}, false
	for len(got) < 20 || !closed {
		for _, m := range near.receive("t", "hung", "max=20&wait=1s") {
			got[m.Value] = max(got[m.Value], m.Attempt)
			near.settle("ack", []message{m}, "")
		}
		if !closed && streams() == 0 {
			closed = true
			t.Logf("after %s the gateway had closed all streams", time.Since(began).Round(time.Second))
		}
		if time.Since(began) > 2*hang {
			t.Fatalf("%v streams are open, and a near consumer has only %v", streams(), got)
		}
	}
	t.Logf("after %s a near consumer had what the hung one had out; attempts: %v", time.Since(began).Round(time.Second), got)
	for time.Since(began) < 2*time.Minute { // until the far end has noticed, too
		near.receive("t", "nobody", "wait=1s")
	}
	ip(t, "rule del pref 10")
	ip(t, "rule del pref 11")
	back := time.Now()
	for _, f := range all {
		f.until(t, 20)
		t.Logf("%s: all there %s after the network was back", f.group, time.Since(back).Round(100*time.Millisecond))
	}
}

// gaugeOf is the sum of a gauge over its labels and all components.
func gaugeOf(t *testing.T, c *Cluster, name string) (sum float64) {
	t.Helper()
	families, err := c.Metrics().Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
