package cluster

import (
	"context"
	"net"
	"sync"

	"github.com/splashdam/splashdam/coordinator"
	"github.com/splashdam/splashdam/gateway"
	"github.com/splashdam/splashdam/lognode"
	"github.com/splashdam/splashdam/shared/link"
)

// links are the connections between the components of a cluster in this process. A link that is cut swallows what is sent
// and says nothing, as a network does; when it is healed what was under way arrives. NATS is not among them: it carries
// hints only.
type links struct {
	mu    sync.Mutex
	names map[string]string           // by address
	cuts  map[[2]string]chan struct{} // closed when it is healed
}

func newLinks() *links {
	return &links{names: map[string]string{}, cuts: map[[2]string]chan struct{}{}}
}

// over gives a cluster these links.
func (l *links) over(o Options) Options {
	name := func(addr, name string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.names[addr] = name
	}
	coordinators, nodes := o.CoordinatorConfig, o.NodeConfig
	o.CoordinatorConfig = func(i int, cfg *coordinator.Config) {
		if coordinators != nil {
			coordinators(i, cfg)
		}
		name(cfg.EtcdClient, cfg.Name)
		cfg.Dial = l.from(cfg.Name)
	}
	o.NodeConfig = func(i int, cfg *lognode.Config) {
		if nodes != nil {
			nodes(i, cfg)
		}
		name(cfg.Listen, cfg.Name)
		cfg.Dial = l.from(cfg.Name)
	}
	o.GatewayConfig = func(_ int, cfg *gateway.Config) { cfg.Dial = l.from(cfg.Name) }
	return o
}

func pair(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// cut cuts the link between two components, also for connections to come; heal mends it.
func (l *links) cut(a, b string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cuts[pair(a, b)] == nil {
		l.cuts[pair(a, b)] = make(chan struct{})
	}
}

func (l *links) heal(a, b string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.cuts[pair(a, b)]; c != nil {
		close(c)
		delete(l.cuts, pair(a, b))
	}
}

func (l *links) healed(p [2]string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cuts[p]
}

// pass waits until the link is not cut; false when over was closed before.
func (l *links) pass(p [2]string, over <-chan struct{}) bool {
	for {
		c := l.healed(p)
		if c == nil {
			return true
		}
		select {
		case <-c:
		case <-over:
			return false
		}
	}
}

func (l *links) from(name string) link.Dial {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		l.mu.Lock()
		p := pair(name, l.names[addr])
		l.mu.Unlock()
		if !l.pass(p, ctx.Done()) {
			return nil, ctx.Err()
		}
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return &linked{Conn: c, links: l, pair: p, over: make(chan struct{})}, nil
	}
}

// linked is one connection over a link.
type linked struct {
	net.Conn
	links *links
	pair  [2]string
	once  sync.Once
	over  chan struct{}
}

func (c *linked) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.links.pass(c.pair, c.over) {
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *linked) Write(b []byte) (int, error) {
	if !c.links.pass(c.pair, c.over) {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *linked) Close() error {
	c.once.Do(func() { close(c.over) })
	return c.Conn.Close()
}
