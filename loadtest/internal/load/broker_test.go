package load

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// broker is a queue in memory with one partition and one group, behind the calls that the modes make. Its
// faults are what the checker has to find.
type broker struct {
	mu       sync.Mutex
	values   []string
	ready    []int // offsets
	attempts map[int]uint32
	leases   uint64
	publishs int
	settles  int
	changed  chan struct{} // closed and replaced when something becomes ready

	lose      func(offset int) bool // stored and never handed out
	refuse    func(publish int) int // status of a publish instead of carrying it out; 0: none
	bringBack func(settle int) bool // what an ack settles is handed out again
}

func newBroker(t *testing.T) (*broker, string) {
	b := &broker{attempts: map[int]uint32{}, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /v1/topics/{t}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) })
	mux.HandleFunc("DELETE /v1/topics/{t}", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, api.Deletion{}) })
	mux.HandleFunc("POST /v1/topics/{t}/messages", b.publish)
	mux.HandleFunc("POST /v1/topics/{t}/messages/batch", b.batch)
	mux.HandleFunc("POST /v1/topics/{t}/groups/{g}/receive", b.receive)
	mux.HandleFunc("POST /v1/settle", b.settle)
	mux.HandleFunc("POST /v1/ack", func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, api.SettleAnswer{}) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return b, server.URL
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func problem(w http.ResponseWriter, status int, code string) {
	answer(w, status, api.Problem{Status: status, Code: code})
}

func (b *broker) store(values ...string) (first int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first = len(b.values)
	for _, v := range values {
		if b.lose == nil || !b.lose(len(b.values)) {
			b.ready = append(b.ready, len(b.values))
		}
		b.values = append(b.values, v)
	}
	close(b.changed)
	b.changed = make(chan struct{})
	return first
}

func (b *broker) publish(w http.ResponseWriter, r *http.Request) {
	value, _ := io.ReadAll(r.Body)
	answer(w, 201, api.Published{ID: "x", Offset: uint64(b.store(string(value)))})
}

func (b *broker) batch(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Type") == "application/x-ndjson" {
		b.lines(w, r)
		return
	}
	var in api.PublishBatch
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		problem(w, 400, "invalid_json")
		return
	}
	b.mu.Lock()
	b.publishs++
	n := b.publishs
	b.mu.Unlock()
	if b.refuse != nil {
		if status := b.refuse(n); status != 0 {
			problem(w, status, map[int]string{503: "no_leader", 504: "outcome_unknown"}[status])
			return
		}
	}
	var values []string
	for _, m := range in.Messages {
		var v string
		_ = json.Unmarshal(m.Value, &v)
		values = append(values, v)
	}
	first := uint64(b.store(values...))
	if r.URL.Query().Get("results") == "runs" {
		answer(w, 200, api.PublishRunsAnswer{Runs: []api.PublishRun{{Partition: new(uint32), FirstOffset: &first, Count: len(values)}}})
		return
	}
	answer(w, 200, api.PublishBatchAnswer{Results: make([]api.PublishResult, len(values))})
}

func (b *broker) lines(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	lines := bufio.NewReader(r.Body)
	for {
		if _, err := lines.ReadString('\n'); err != nil {
			return
		}
		_, _ = io.WriteString(w, `{"id":"x","partition":0,"offset":1}`+"\n")
		if lines.Buffered() == 0 {
			_ = control.Flush()
		}
	}
}

func (b *broker) receive(w http.ResponseWriter, r *http.Request) {
	var in api.ReceiveRequest
	_ = json.NewDecoder(r.Body).Decode(&in)
	deadline := time.After(time.Duration(in.Wait))
	for {
		b.mu.Lock()
		out := b.take(max(in.Max, 1))
		changed := b.changed
		b.mu.Unlock()
		if len(out) > 0 {
			answer(w, 200, api.ReceiveAnswer{Messages: out})
			return
		}
		select {
		case <-changed:
		case <-deadline:
			answer(w, 200, api.ReceiveAnswer{Messages: []api.Delivery{}})
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (b *broker) take(n int) []api.Delivery {
	var out []api.Delivery
	for _, offset := range b.ready[:min(n, len(b.ready))] {
		b.leases++
		b.attempts[offset]++
		out = append(out, api.Delivery{Message: api.Message{Offset: uint64(offset), Value: b.values[offset]},
			Receipt: fmt.Sprint(offset), Fence: string(api.AppendFence(nil, 1, b.leases)), Attempt: b.attempts[offset]})
	}
	b.ready = b.ready[len(out):]
	return out
}

func (b *broker) settle(w http.ResponseWriter, r *http.Request) {
	var in api.SettleRequest
	_ = json.NewDecoder(r.Body).Decode(&in)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settles++
	again := in.Nack
	if b.bringBack != nil && b.bringBack(b.settles) {
		for _, receipt := range in.Ack {
			again = append(again, api.NackItem{Receipt: receipt})
		}
	}
	for _, n := range again {
		var offset int
		_, _ = fmt.Sscan(strings.TrimSpace(n.Receipt), &offset)
		b.ready = append(b.ready, offset)
	}
	answer(w, 200, api.SettleAnswer{Results: make([]api.SettleResult, len(in.Ack)+len(in.Nack))})
}
