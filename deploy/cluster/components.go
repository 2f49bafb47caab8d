package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/coordinator"
	"github.com/splashdam/splashdam/gateway"
	"github.com/splashdam/splashdam/lognode"
)

// plan makes the members; nothing starts yet.
func (c *Cluster) plan() {
	for i := 1; i <= c.opts.Coordinators; i++ {
		c.coordinators = append(c.coordinators, c.member(coordinatorKind, i, func() any { return c.coordinatorConfig(i) }))
	}
	for i := 1; i <= c.opts.Nodes; i++ {
		c.nodes = append(c.nodes, c.member(nodeKind, i, func() any { return c.nodeConfig(i) }))
	}
	for i := 1; i <= c.opts.Gateways; i++ {
		c.gateways = append(c.gateways, c.member(gatewayKind, i, func() any { return c.gatewayConfig(i) }))
	}
}

// member makes one; its configuration is made anew at each start.
func (c *Cluster) member(kind string, i int, config func() any) *Member {
	m := &Member{name: memberName(kind, i)}
	m.launch = func(ctx context.Context) (running, error) {
		if c.spawner != nil {
			return c.spawn(ctx, kind, m.name, config())
		}
		h, err := launchHere(ctx, config(), c.opts.Log, c.figures.component(m.name))
		if err != nil {
			return nil, err
		}
		return watch(h, m.name, c.failed), nil
	}
	return m
}

func (c *Cluster) coordinatorConfig(i int) coordinator.Config {
	cfg := coordinator.DefaultConfig()
	cfg.Name = memberName(coordinatorKind, i)
	cfg.Dir = filepath.Join(c.opts.Dir, cfg.Name)
	cfg.EtcdClient = c.layout.addr(cfg.Name + "/etcd")
	cfg.EtcdPeer = c.layout.addr(cfg.Name + "/peer")
	cfg.NATS = c.layout.addr(cfg.Name + "/nats")
	cfg.NATSRoute = c.layout.addr(cfg.Name + "/route")
	for j := 1; c.opts.Coordinators > 1 && j <= c.opts.Coordinators; j++ {
		name := memberName(coordinatorKind, j)
		cfg.Peers = append(cfg.Peers, coordinator.Peer{
			Name:      name,
			EtcdPeer:  c.layout.addr(name + "/peer"),
			NATSRoute: c.layout.addr(name + "/route"),
		})
	}
	if hook := c.opts.CoordinatorConfig; hook != nil {
		hook(i, &cfg)
	}
	return cfg
}

func (c *Cluster) nodeConfig(i int) lognode.Config {
	cfg := lognode.DefaultConfig()
	cfg.Name = memberName(nodeKind, i)
	cfg.Dir = filepath.Join(c.opts.Dir, cfg.Name)
	cfg.Listen = c.layout.addr(cfg.Name)
	cfg.Advertise = cfg.Listen
	cfg.Etcd = c.etcdEndpoints()
	if hook := c.opts.NodeConfig; hook != nil {
		hook(i, &cfg)
	}
	return cfg
}

func (c *Cluster) gatewayConfig(i int) gateway.Config {
	cfg := gateway.DefaultConfig()
	cfg.Name = memberName(gatewayKind, i)
	cfg.Listen = c.layout.gateways[i-1]
	cfg.Etcd = c.etcdEndpoints()
	cfg.Insecure = c.opts.Insecure
	if hook := c.opts.GatewayConfig; hook != nil {
		hook(i, &cfg)
	}
	return cfg
}

func (c *Cluster) etcdEndpoints() []string {
	var out []string
	for i := 1; i <= c.opts.Coordinators; i++ {
		out = append(out, c.layout.addr(memberName(coordinatorKind, i)+"/etcd"))
	}
	return out
}

// component is what the three tiers have in common once they run.
type component interface {
	Stop(ctx context.Context) error
}

// startComponent starts the tier that cfg configures.
func startComponent(ctx context.Context, cfg any, log *slog.Logger, reg prometheus.Registerer) (component, error) {
	switch cfg := cfg.(type) {
	case coordinator.Config:
		return orNothing(coordinator.Start(ctx, cfg, log, reg))
	case lognode.Config:
		return orNothing(lognode.Start(ctx, cfg, log, reg))
	case gateway.Config:
		return orNothing(gateway.Start(ctx, cfg, log, reg))
	default:
		return nil, fmt.Errorf("no component takes a %T", cfg)
	}
}

// orNothing turns a nil pointer beside an error into a nil interface.
func orNothing[C component](c C, err error) (component, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// here is a component that runs in this process.
type here struct {
	component component
	end       context.CancelFunc // of the context that it was started with
	failed    <-chan error       // nil for a component that never ends by itself
}

// launchHere starts a component in this process. Its context is its own: ctx bounds the start only.
func launchHere(ctx context.Context, cfg any, log *slog.Logger, reg prometheus.Registerer) (*here, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, end)
	component, err := startComponent(life, cfg, log, reg)
	if err != nil {
		end()
		return nil, err
	}
	if !unhook() { // ctx ended just before the start did
		err := component.Stop(life)
		return nil, errors.Join(ctx.Err(), err)
	}
	h := &here{component: component, end: end}
	if f, ok := component.(interface{ Failed() <-chan error }); ok {
		h.failed = f.Failed()
	}
	return h, nil
}

func (h *here) stop(ctx context.Context) error {
	defer h.end()
	return h.component.Stop(ctx)
}

// kill ends the component's context first and gives it no time to drain.
func (h *here) kill() error {
	h.end()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := h.component.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (h *here) signal(os.Signal) error { return errNotAProcess }

// watched is a component of this process whose failure is told to the cluster.
type watched struct {
	*here
	done chan struct{} // closed when the watcher has ended
	quit chan struct{} // closed to end it
}

func watch(h *here, name string, failed chan<- error) running {
	if h.failed == nil {
		return h
	}
	w := &watched{here: h, done: make(chan struct{}), quit: make(chan struct{})}
	go func() {
		defer close(w.done)
		select {
		case err := <-h.failed:
			report(failed, &Ended{name, err})
		case <-w.quit:
		}
	}()
	return w
}

func (w *watched) stop(ctx context.Context) error {
	w.unwatch()
	return w.here.stop(ctx)
}

func (w *watched) kill() error {
	w.unwatch()
	return w.here.kill()
}

func (w *watched) unwatch() { close(w.quit); <-w.done }

// report is a send that never blocks: Cluster.Failed has a bound.
func report(failed chan<- error, err error) {
	select {
	case failed <- err:
	default:
	}
}
