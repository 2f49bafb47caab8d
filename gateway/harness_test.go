package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// harness is a gateway over a real etcd, one fake log node that leads everything, and a controller of a few lines.
type harness struct {
	t     *testing.T
	store *meta.Store
	view  *meta.View
	node  *fakeNode
	etcd  string
	g     *Gateway
}

const fakeStore = mq.StoreID("0123456789abcdef0123456789abcdef")

func startHarness(t *testing.T, options ...func(*Config)) *harness {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	h := &harness{t: t, node: startFakeNode(t), etcd: startEtcd(t)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var err error
	if h.store, err = meta.Connect(ctx, []string{h.etcd}, log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.store.Close() })
	if _, err := h.store.EnsureCluster(ctx); err != nil {
		t.Fatal(err)
	}
	if err := h.store.EnsureReceiptSecret(ctx); err != nil {
		t.Fatal(err)
	}
	self, err := h.store.Register(ctx, meta.NodeKey("node-1"), meta.Node{Name: "node-1", Store: fakeStore, Boot: 3, Addr: h.node.addr, Zone: "a"}, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(self.Close)
	h.control(log)
	options = append([]func(*Config){func(cfg *Config) { cfg.RequestTimeout = time.Minute }}, options...) // as long as anything takes
	h.g = h.gateway(options...)
	return h
}

// gateway starts one.
func (h *harness) gateway(options ...func(*Config)) *Gateway {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	cfg := DefaultConfig()
	cfg.Listen, cfg.Etcd = "127.0.0.1:0", []string{h.etcd}
	for _, o := range options {
		o(&cfg)
	}
	g, err := Start(ctx, cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			h.t.Error(err)
		}
	})
	return g
}

// gatewaysMade makes names of them: each has its own as long as it lives.
var gatewaysMade atomic.Int64

// impatient is the same with another gateway: what it waits for in vain it waits for as long as gateways do by default, in which
// also a busy machine gets as far as to find out why.
func (h *harness) impatient() *harness {
	h.t.Helper()
	other := *h
	other.g = h.gateway(func(cfg *Config) { cfg.Name = fmt.Sprintf("impatient-%d", gatewaysMade.Add(1)) })
	return &other
}

// together runs calls that wait at the same time.
func together(calls ...func()) {
	var all sync.WaitGroup
	for _, f := range calls {
		all.Go(f)
	}
	all.Wait()
}

// control makes the partitions of topics and opens a segment of each on the fake node. Topics whose name
// begins with "closed" stay without a leader.
func (h *harness) control(log *slog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	h.view = meta.NewView(h.store, log)
	changes, forget := h.view.Subscribe()
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.view.Run(ctx) })
	wg.Go(func() {
		for {
			select {
			case <-changes:
				h.openAll(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	h.t.Cleanup(func() {
		cancel()
		forget()
		wg.Wait()
	})
}

func (h *harness) openAll(ctx context.Context) {
	for _, t := range h.view.Topics() {
		if _ = h.store.CreatePartitions(ctx, t.ID, uint32(len(h.view.Heads(t.ID))), t.Settings.Partitions, t.Settings.Replicas, t.Settings.Quorum); strings.HasPrefix(t.Name, "closed") {
			continue
		}
		for _, p := range allPartitions(t) {
			head, err := h.store.Head(ctx, p)
			if err != nil || head.Open != nil {
				continue
			}
			id, err := h.store.NextID(ctx, meta.SegmentIDs)
			if err != nil {
				continue
			}
			head.Open = &mq.Segment{ID: mq.SegmentID(id), Partition: p, Number: head.Next, Quorum: 1,
				Replicas: []mq.Replica{{Store: fakeStore, Node: "node-1"}}, Leader: mq.Incarnation{Store: fakeStore, Boot: 3}}
			head.Next++
			_, _, _ = h.store.OpenSegments(ctx, []meta.Opening{{Head: head}}) // the next change tries again
		}
	}
}

// answer is what came back from a call.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request; headers are pairs of name and value.
func (h *harness) call(method, path, body string, headers ...string) answer {
	h.t.Helper()
	a, err := h.try(method, path, body, headers...)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// try is call for goroutines of a test, which must not end it.
func (h *harness) try(method, path, body string, headers ...string) (answer, error) {
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.g.URL()+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	for name, v := range res.Trailer {
		res.Header[name] = v
	}
	return answer{res.StatusCode, res.Header, b}, err
}

// ok calls and wants a status.
func (h *harness) ok(status int, method, path, body string, headers ...string) answer {
	h.t.Helper()
	a := h.call(method, path, body, headers...)
	if a.status != status {
		h.t.Fatalf("%s %s: %d, want %d: %s", method, path, a.status, status, a.body)
	}
	return a
}

// fails calls and wants a problem with a code that names a field, if one is given.
func (h *harness) fails(code, pointer, method, path, body string, headers ...string) {
	h.t.Helper()
	a := h.call(method, path, body, headers...)
	var p api.Problem
	if err := json.Unmarshal(a.body, &p); err != nil || a.header.Get("Content-Type") != api.ProblemType {
		h.t.Errorf("%s %.100s: %d %s: no problem: %.200s", method, path, a.status, a.header.Get("Content-Type"), a.body)
		return
	}
	if p.Code != code || p.Status != a.status || p.Title == "" || p.RequestID == "" {
		h.t.Errorf("%s %.100s %.60q: %+v, want %s", method, path, body, p, code)
	}
	if pointer != "" && (len(p.Errors) == 0 || p.Errors[0].Pointer != pointer) {
		h.t.Errorf("%s %.100s %.60q: %s names %v, want %s", method, path, body, code, p.Errors, pointer)
	}
}

// decodeAs reads a body strictly: what it holds must all be in T.
func decodeAs[T any](t *testing.T, a answer) T {
	t.Helper()
	var v T
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%T: %v in %s", v, err, a.body)
	}
	return v
}

// topic makes a topic and gives its id.
func (h *harness) topic(name string, settings string) mq.TopicID {
	h.t.Helper()
	h.ok(http.StatusCreated, http.MethodPut, "/v1/topics/"+name, settings)
	t, ok := h.g.view.Topic(name)
	if !ok {
		h.t.Fatalf("topic %s is not in the view", name)
	}
	return t.ID
}

// part is a partition of a topic.
func part(t mq.TopicID, n uint32) mq.PartitionID { return mq.PartitionID{Topic: t, Number: n} }
