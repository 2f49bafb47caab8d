package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// env is a gateway with a real etcd and NATS, one leader in memory, and a controller that gives it every
// partition.
type env struct {
	t      testing.TB
	g      *Gateway
	leader *leader
	store  *meta.Store
	view   *meta.View // another one than the gateway's
	client *http.Client
	etcd   string
}

func startEtcd(t testing.TB) string {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir, cfg.LogLevel = t.TempDir(), "fatal"
	any := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = []url.URL{any}, []url.URL{any}
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = []url.URL{any}, []url.URL{any}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = true
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Server.HardStop()
		e.Close()
	})
	<-e.Server.ReadyNotify()
	return e.Clients[0].Addr().String()
}

func startNATS(t testing.TB) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("NATS does not start")
	}
	return s.Addr().String()
}

func newEnv(t testing.TB, change ...func(*Config)) *env {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	log := slog.New(slog.DiscardHandler)
	e := &env{t: t, etcd: startEtcd(t)}
	store, err := meta.Connect(ctx, []string{e.etcd}, log)
	e.check(err)
	e.store = store
	e.view = meta.NewView(store, log)
	e.check(store.EnsureReceiptSecret(ctx))
	e.leader = startLeader(t, e.view.Secret)
	running, stop := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() { _ = e.view.Run(running); done <- struct{}{} }()
	go func() { e.control(running); done <- struct{}{} }()
	node, err := store.Register(ctx, meta.NodeKey("node-1"), meta.Node{Name: "node-1", Store: "5707e", Boot: 1, Addr: e.leader.addr}, time.Minute, nil)
	e.check(err)
	coordinator, err := store.Register(ctx, meta.CoordinatorKey("c"), meta.Coordinator{Name: "c", NATS: startNATS(t)}, 60*time.Second, nil)
	e.check(err)
	t.Cleanup(func() {
		stop()
		<-done
		<-done
		node.Close()
		coordinator.Close()
		_ = store.Close()
	})
	e.g = e.gateway("g1", change...)
	e.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	t.Cleanup(e.client.CloseIdleConnections)
	return e
}

// gateway starts a gateway.
func (e *env) gateway(name string, change ...func(*Config)) *Gateway {
	cfg := DefaultConfig()
	cfg.Name, cfg.Listen, cfg.Etcd = name, "127.0.0.1:0", []string{e.etcd}
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	g, err := Start(ctx, cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	e.check(err)
	e.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := g.Stop(ctx); err != nil {
			e.t.Errorf("stopping %s: %v", name, err)
		}
	})
	return g
}

func (e *env) check(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// control is the controller: every partition of every topic is led by node-1.
func (e *env) control(ctx context.Context) {
	changes, cancel := e.view.Subscribe()
	defer cancel()
	for {
		for _, t := range e.view.Topics() {
			_ = e.store.CreatePartitions(ctx, t.ID, 0, t.Settings.Partitions, 1, 1)
			for _, h := range e.view.Heads(t.ID) {
				if h.Open == nil {
					h.Open = &mq.Segment{ID: mq.SegmentID(h.Partition.Topic)<<16 | mq.SegmentID(h.Partition.Number), Partition: h.Partition, Number: h.Next,
						Replicas: []mq.Replica{{Store: "5707e", Node: "node-1"}}, Quorum: 1, Leader: mq.Incarnation{Store: "5707e", Boot: 1}}
					h.Next++
					_, _, _ = e.store.OpenSegments(ctx, []meta.Opening{{Head: h}}) // an error: the next change tries again
				}
			}
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return
		}
	}
}

// reply is an HTTP reply that was read whole.
type reply struct {
	status int
	header http.Header
	body   string
}

func (a reply) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), v); err != nil {
		t.Fatalf("%d %q: %v", a.status, a.body, err)
	}
}

// code is the code of a problem, checked to be one.
func (a reply) code(t testing.TB) string {
	t.Helper()
	var p struct {
		Code      string
		Status    int
		RequestID string `json:"request_id"`
	}
	if ct := a.header.Get("Content-Type"); ct != "application/problem+json" {
		t.Fatalf("%d %s %q is no problem document", a.status, ct, a.body)
	}
	if a.into(t, &p); p.Status != a.status || p.RequestID == "" || p.RequestID != a.header.Get("X-Request-Id") {
		t.Errorf("status %d, header %v, body %s", a.status, a.header, a.body)
	}
	return p.Code
}

// call sends one request; headers come as name, value pairs.
func (e *env) call(method, path string, body any, headers ...string) reply {
	e.t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case []byte:
		in = bytes.NewReader(b)
	case string:
		in = strings.NewReader(b)
	case io.Reader:
		in = b
	}
	req, err := http.NewRequest(method, e.g.URL()+path, in)
	e.check(err)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := e.client.Do(req)
	e.check(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	e.check(err)
	return reply{resp.StatusCode, resp.Header, string(b)}
}

func (e *env) post(path string, body any, headers ...string) reply {
	e.t.Helper()
	return e.call(http.MethodPost, path, body, headers...)
}

// topic makes a topic and waits until the gateway knows leaders of all its partitions.
func (e *env) topic(name string, change ...func(*mq.TopicSettings)) meta.Topic {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	s := mq.DefaultTopicSettings()
	s.Replicas, s.Quorum = 1, 1
	for _, f := range change {
		f(&s)
	}
	t, err := e.store.CreateTopic(ctx, name, s)
	e.check(err)
	e.check(e.g.view.WaitFor(ctx, func(v *meta.View) bool {
		_, known := v.Topic(name)
		heads := v.Heads(t.ID)
		for _, h := range heads {
			known = known && h.Open != nil
		}
		return known && len(heads) == int(s.Partitions)
	}))
	return t
}
