package coordinator

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/shared/config"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/metrics"
	"github.com/splashdam/splashdam/shared/mq"
)

func TestConfigReportsEveryProblem(t *testing.T) {
	c := DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	c = Config{Name: "../x", EtcdClient: "10.0.0.1:2379", EtcdPeer: "127.0.0.1", NATS: ":4222", NATSRoute: "127.0.0.1:0",
		Peers: []Peer{{"a", "127.0.0.1:1", "127.0.0.1:2"}, {"a", "x", "127.0.0.1:3"}}}
	err := c.Validate()
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"name:", "dir:", "etcd-client", "etcd-peer", "nats:", "nats-route", "lease-ttl", "there are 2", "twice", "not in the list", "peers[1]: etcd peer"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %q in: %v", want, err)
		}
	}
	c = DefaultConfig()
	c.EtcdClient = "10.0.0.1:2379"
	if c.Validate() == nil {
		t.Error("an address that others reach, without insecure")
	}
	c.Insecure = true
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.NATS = c.NATSRoute
	if c.Validate() == nil {
		t.Error("one port twice")
	}
}

func TestConfigFromFlags(t *testing.T) {
	var c Config
	args := []string{"--name=b", "--lease-ttl=3s", "--etcd-peer=127.0.0.1:3", "--nats-route=127.0.0.1:4",
		"--peers=a,127.0.0.1:1,127.0.0.1:2;b,127.0.0.1:3,127.0.0.1:4;c,127.0.0.1:5,127.0.0.1:6"}
	if err := config.Parse(&c, "coordinator", "", args, io.Discard); err != nil {
		t.Fatal(err)
	}
	if c.Name != "b" || c.LeaseTTL != 3*time.Second || len(c.Peers) != 3 || c.Peers[1] != (Peer{"b", "127.0.0.1:3", "127.0.0.1:4"}) {
		t.Errorf("%+v", c)
	}
	for _, bad := range []string{"a", "a,b", "a,b,c,d"} {
		if err := new(Peer).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is a peer", bad)
		}
	}
	var p Peer
	if err := json.Unmarshal([]byte(`{"name":"a","etcd_peer":"x:1","nats_route":"y:2"}`), &p); err != nil || p != (Peer{"a", "x:1", "y:2"}) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestBookSeesStorms(t *testing.T) {
	now := time.Unix(1000, 0)
	nodes := func(n int) (out []meta.Node) {
		for i := range n {
			out = append(out, meta.Node{Name: string(rune('a' + i)), Store: mq.StoreID(rune('a' + i))})
		}
		return out
	}
	b := newBook()
	b.update(nodes(6), now)
	if b.update(nodes(5), now) || b.update(nodes(4), now.Add(time.Millisecond)) {
		t.Error("two of six: a third is no storm")
	}
	if !b.update(nodes(3), now.Add(2*time.Millisecond)) {
		t.Error("three of six within a second")
	}
	if b.update(nodes(3), now.Add(3*time.Millisecond)) {
		t.Error("a storm without any more leases that ended")
	}
	if b.update(nodes(2), now.Add(2*time.Second)) {
		t.Error("one of three, later")
	}
	live := 0
	for _, m := range b.members(nil) {
		if m.Live {
			live++
		}
	}
	if len(b.members(nil)) != 6 || live != 2 {
		t.Errorf("%d members, %d live; nodes whose lease ended may still answer", len(b.members(nil)), live)
	}
	b.forget(map[mq.StoreID]load{"f": {1, 0}})
	if len(b.members(nil)) != 3 {
		t.Errorf("%d members; only who is live or holds something matters", len(b.members(nil)))
	}
}

func TestMetricsAreClean(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	f, err := newFigures(reg)
	if err != nil {
		t.Fatal(err)
	}
	if n := metrics.Series(reg, "splashdam_coordinator_openings_total"); n != 9 {
		t.Errorf("%d reasons of openings before there was one, want 9", n)
	}
	problems, err := metrics.Lint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	f.unregister(reg)
	if _, err := newFigures(reg); err != nil {
		t.Errorf("a second start: %v", err)
	}
}
