package gateway

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// cord is the network of a gateway: what it dials, but for one node, can be cut and mended.
type cord struct {
	node  string
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (c *cord) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case addr == c.node:
	case c.cut:
		return nil, errors.Join(errors.New("the network is cut"), conn.Close())
	default:
		c.conns = append(c.conns, conn)
	}
	return conn, nil
}

func (c *cord) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// While the coordinators can't be reached the answer says since when, and of nodes and partitions it tells what answers the gateway;
// when they are back it says that, too.
func TestClusterWithoutCoordinators(t *testing.T) {
	t.Parallel()
	var network cord
	h := startHarness(t, func(cfg *Config) { cfg.Dial = network.dial })
	network.mu.Lock()
	network.node = h.node.addr
	network.mu.Unlock()
	h.topic("orders", `{"partitions":2}`)
	until := func(metadata string) (got api.Cluster) {
		t.Helper()
		for got.Metadata != metadata {
			if t.Context().Err() != nil {
				t.Fatal(t.Context().Err())
			}
			h.ok(200, "GET", "/v1/topics/orders/messages", "") // the node is heard
			got = decodeAs[api.Cluster](t, h.ok(200, "GET", "/v1/cluster", ""))
		}
		return got
	}
	before := time.Now()
	if got := until(api.MetadataCurrent); got.MetadataSince != nil || got.CoordinatorsWanted != 1 {
		t.Errorf("%+v", got)
	}
	network.set(true)
	got := until(api.MetadataStale)
	if got.MetadataSince == nil || got.MetadataSince.Before(before.Add(-time.Minute)) || got.MetadataSince.After(time.Now()) {
		t.Errorf("stale since %v", got.MetadataSince)
	}
	if len(got.Nodes) != 1 || !got.Nodes[0].Alive || got.Partitions.WithLeader != 2 {
		t.Errorf("a node that answers: %+v", got)
	}
	for got.Nodes[0].Alive || got.Partitions.WithLeader > 0 {
		got = decodeAs[api.Cluster](t, h.ok(200, "GET", "/v1/cluster", ""))
	}
	if got.Metadata != api.MetadataStale || got.Partitions.UnderReplicated != 2 {
		t.Errorf("a node that says nothing any more: %+v", got)
	}
	network.set(false)
	for got.Metadata == api.MetadataStale {
		got = decodeAs[api.Cluster](t, h.ok(200, "GET", "/v1/cluster", ""))
	}
	if got.Metadata != api.MetadataReturned || got.MetadataSince == nil {
		t.Errorf("just after: %+v", got)
	}
}
