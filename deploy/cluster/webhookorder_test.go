package cluster

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// keyJudge is an endpoint that says whether the messages of each key come one after the other: the values "k=1",
// "k=2"... of a key k. It refuses some at first, so that others could overtake them.
type keyJudge struct {
	t  *testing.T
	mu sync.Mutex
	// taken is the last value of a key that was answered 2xx, refused those that were refused once.
	taken   map[string]int
	refused map[string]bool
	under   map[string]int // the value that is under way
}

func newKeyJudge(t *testing.T) *keyJudge {
	return &keyJudge{t: t, taken: map[string]int{}, refused: map[string]bool{}, under: map[string]int{}}
}

func (j *keyJudge) answer(_ int, a arrival) int {
	key, text, _ := strings.Cut(a.body, "=")
	n, err := strconv.Atoi(text)
	if err != nil || a.header.Get("Mq-Key") != key {
		j.t.Errorf("%q came with the key %q", a.body, a.header.Get("Mq-Key"))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	// The next one, or one whose answer the gateway did not live to settle.
	if n > j.taken[key]+1 {
		j.t.Errorf("%s came when %d was the last one that was taken", a.body, j.taken[key])
	}
	if other := j.under[key]; other != 0 && other != n {
		j.t.Errorf("%s came while %d was under way", a.body, other)
	}
	if n%4 == 2 && !j.refused[a.body] {
		j.refused[a.body] = true
		return []int{500, 400, 429}[n%3]
	}
	j.taken[key] = max(j.taken[key], n)
	return 200
}

// begin and end say what is under way, around the answer.
func (j *keyJudge) begin(a arrival) {
	key, text, _ := strings.Cut(a.body, "=")
	n, _ := strconv.Atoi(text)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.under[key] = n
}

// A webhook that orders by key sends the messages of a key one after the other, whatever the endpoint refuses and which
// gateway goes; other keys go on meanwhile.
func TestEndWebhookOrdersByKey(t *testing.T) {
	t.Parallel()
	const keys, each = 8, 12
	c := start(t, pushes(Options{Nodes: 1, Gateways: 2, Coordinators: 1}))
	one := via(t, c, 1)
	one.topic("orders", `{"partitions":4}`)
	j := newKeyJudge(t)
	held := make(chan struct{}) // what the first message of key 0 waits for
	var once sync.Once
	done := map[string]bool{}
	var mu sync.Mutex
	others := make(chan struct{})
	e := listen(t, func(n int, a arrival) int {
		j.begin(a)
		if a.body == "0=1" {
			<-held
		}
		status := j.answer(n, a)
		key, _, _ := strings.Cut(a.body, "=")
		mu.Lock()
		defer mu.Unlock()
		if key != "0" && status == 200 && strings.HasSuffix(a.body, fmt.Sprint("=", each)) {
			done[key] = true
		}
		if len(done) == keys-1 {
			once.Do(func() { close(others) })
		}
		return status
	})
	one.webhook("orders", "shop", e.URL, `,"ordering":"key","timeout":"30s","retry":{"schedule":["10ms"],"jitter":0,"max_attempts":0},"circuit":{"failures":0}`)
	one.untilWebhook("orders", "shop", func(w webhook) bool { return len(w.Gateways) == 2 })
	for i := 1; i <= each; i++ {
		values := make([]string, keys)
		for k := range keys {
			values[k] = fmt.Sprintf("%d=%d", k, i)
		}
		keyed(one, "orders", values...)
	}
	<-others // every other key is through, while one waits for its first answer
	must(t, c.Gateway(2).Kill())
	close(held)
	one.untilWebhook("orders", "shop", func(w webhook) bool { return w.Lag == 0 && len(w.Gateways) == 1 })
	j.mu.Lock()
	defer j.mu.Unlock()
	for k := range keys {
		if n := j.taken[strconv.Itoa(k)]; n != each {
			t.Errorf("key %d: %d of %d were taken", k, n, each)
		}
	}
	if len(j.refused) != keys*3 {
		t.Errorf("%d were refused at first, want 3 of each key", len(j.refused))
	}
}

// A gateway that drains refuses new connections at once, also while the endpoint of a webhook takes its time; the request
// that is under way is waited for and settled.
func TestEndDrainWithSlowEndpoint(t *testing.T) {
	t.Parallel()
	c := start(t, pushes(Options{Nodes: 1, Gateways: 2, Coordinators: 1}))
	two := via(t, c, 2)
	two.topic("orders", `{"partitions":1}`)
	came, goOn := make(chan struct{}, 10), make(chan struct{})
	e := listen(t, func(int, arrival) int {
		came <- struct{}{}
		<-goOn
		return 200
	})
	two.webhook("orders", "shop", e.URL, "")
	two.publish("orders", "v")
	<-came
	owner := ""
	two.untilWebhook("orders", "shop", func(w webhook) bool {
		for _, g := range w.Gateways {
			if len(g.Partitions) == 1 {
				owner = g.Gateway
			}
		}
		return owner != ""
	})
	stopped := make(chan error, 1)
	go func() { stopped <- c.MemberNamed(owner).Stop(t.Context()) }()
	index := map[string]int{"gateway-1": 0, "gateway-2": 1}[owner]
	url := c.URLs()[index]
	eventually(t, "new connections are refused", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err == nil {
			must(t, conn.Close())
		}
		return err != nil
	})
	select {
	case err := <-stopped:
		t.Fatalf("it did not wait for the request: %v", err)
	default:
	}
	close(goOn)
	must(t, <-stopped)
	other := via(t, c, 2-index)
	other.untilWebhook("orders", "shop", func(w webhook) bool { return w.Lag == 0 })
	if n := len(e.wait(1)); n != 1 {
		t.Errorf("%d requests were made for one message", n)
	}
}
