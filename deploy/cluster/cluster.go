// Package cluster runs a whole Splashdam on one machine: coordinators, log nodes and gateways, all in this
// process or one process each. deploy/local is its thin main, and end-to-end tests use it to start, stop, kill
// and restart parts of a real cluster.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/splashdam/splashdam/coordinator"
	"github.com/splashdam/splashdam/gateway"
	"github.com/splashdam/splashdam/lognode"
	"github.com/splashdam/splashdam/shared/config"
)

// Options say what to start. Dir is required; the zero value of the rest is one of each tier in this
// process, with free ports and no log.
type Options struct {
	// Dir holds everything: coordinator-1, node-1, ..., local.json (the ports), lock. Made if missing.
	Dir string
	// How many of each tier: coordinators 1, 3 or 5, nodes and gateways 1 to 32; 0 means 1. The number of
	// coordinators is fixed by the first start in Dir, and the number of nodes may only grow.
	Coordinators, Nodes, Gateways int
	// HTTP is the address of the first gateway; the others take the next ports. Empty: free ports, kept in
	// local.json.
	HTTP string
	// Log gets what the components say when they run in this process. Nil: nothing is logged.
	Log *slog.Logger
	// Insecure allows HTTP to be an address that other machines can reach. What the tiers use between them
	// stays on 127.0.0.1.
	Insecure bool
	// Processes, when it is set, gives each component a process of its own.
	Processes *Processes
	// These may change a component's configuration before it starts; i counts from 1.
	CoordinatorConfig func(i int, cfg *coordinator.Config)
	NodeConfig        func(i int, cfg *lognode.Config)
	GatewayConfig     func(i int, cfg *gateway.Config)
}

// Cluster is a started cluster. Its methods may be called by anyone; Stop is the last one.
type Cluster struct {
	opts    Options
	layout  *layout
	lock    *dirLock
	spawner *spawner // nil unless Processes
	figures *figures

	coordinators, nodes, gateways []*Member
	failed                        chan error
	stopped                       sync.Once
}

// Start starts everything and returns when every gateway is ready, or with an error and nothing left
// running. ctx bounds the start only.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	opts.fill()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	lock, err := lockDir(opts.Dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: opts, lock: lock, figures: newFigures(), failed: make(chan error, 64)}
	if c.layout, err = loadLayout(opts); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	for _, addr := range c.layout.gateways {
		if err := checkFree(addr); err != nil {
			return nil, errors.Join(err, c.layout.release(), lock.release())
		}
	}
	if opts.Processes != nil {
		c.spawner = newSpawner()
	}
	c.plan()
	if err := c.startAll(ctx); err != nil {
		// The caller's ctx may be what ended the start.
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return nil, errors.Join(err, c.Stop(stopping))
	}
	return c, nil
}

// stopTimeout bounds the clean-up of a start that failed.
const stopTimeout = 15 * time.Second

func (o *Options) fill() {
	for _, n := range []*int{&o.Coordinators, &o.Nodes, &o.Gateways} {
		if *n == 0 {
			*n = 1
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// validate reports every problem at once.
func (o *Options) validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("no data directory is given"))
	}
	if n := o.Coordinators; n != 1 && n != 3 && n != 5 {
		errs = append(errs, fmt.Errorf("coordinators: %d is not 1, 3 or 5", n))
	}
	if n := o.Nodes; n < 1 || n > maxMembers {
		errs = append(errs, fmt.Errorf("nodes: %d is not 1 to %d", n, maxMembers))
	}
	if n := o.Gateways; n < 1 || n > maxMembers {
		errs = append(errs, fmt.Errorf("gateways: %d is not 1 to %d", n, maxMembers))
	}
	addrs, err := gatewayAddresses(o.HTTP, max(o.Gateways, 1))
	if err == nil && len(addrs) > 0 {
		err = config.CheckListen("http", addrs[0], o.Insecure)
	}
	if err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// maxMembers bounds a tier: more on one machine is a mistake.
const maxMembers = 32

// startAll starts the tiers in the order in which they need each other. Within a tier all start at once:
// an etcd of three answers nobody until two of them are there.
func (c *Cluster) startAll(ctx context.Context) error {
	for _, tier := range [][]*Member{c.coordinators, c.nodes, c.gateways} {
		g, gctx := errgroup.WithContext(ctx)
		for _, m := range tier {
			g.Go(func() error { return m.Start(gctx) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	for i, url := range c.URLs() {
		if err := c.awaitReady(ctx, url); err != nil {
			return fmt.Errorf("gateway-%d does not become ready: %w", i+1, err)
		}
	}
	return nil
}

// awaitReady asks /readyz until it says yes or ctx ends.
func (c *Cluster) awaitReady(ctx context.Context, url string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	last := errors.New("it was not asked yet")
	for {
		if last = askReady(ctx, url); last == nil {
			return nil
		}
		select {
		case err := <-c.failed:
			return err
		case <-ctx.Done():
			return fmt.Errorf("%w (last answer: %w)", ctx.Err(), last)
		case <-tick.C:
		}
	}
}

func askReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}

// URLs are the base addresses of the gateways ("http://127.0.0.1:8080"), running or not.
func (c *Cluster) URLs() []string {
	out := make([]string, len(c.gateways))
	for i := range out {
		out[i] = "http://" + c.layout.gateways[i]
	}
	return out
}

// Coordinator, Node and Gateway give a member by the number in its name, counted from 1.
func (c *Cluster) Coordinator(i int) *Member { return c.coordinators[i-1] }

// Node gives node-<i>.
func (c *Cluster) Node(i int) *Member { return c.nodes[i-1] }

// Gateway gives gateway-<i>.
func (c *Cluster) Gateway(i int) *Member { return c.gateways[i-1] }

// NodeNamed gives a node by its name, nil if there is none: answers of the API name leaders.
func (c *Cluster) NodeNamed(name string) *Member {
	for _, m := range c.nodes {
		if m.Name() == name {
			return m
		}
	}
	return nil
}

// Ended is the error of a component that ended though nobody here stopped or killed it.
type Ended struct {
	Name string // of the member
	Err  error
}

func (e *Ended) Error() string { return e.Name + " ended by itself: " + e.Err.Error() }

// Unwrap is how it ended.
func (e *Ended) Unwrap() error { return e.Err }

// MemberNamed gives any member by its name, nil if there is none.
func (c *Cluster) MemberNamed(name string) *Member {
	for _, m := range slices.Concat(c.coordinators, c.nodes, c.gateways) {
		if m.name == name {
			return m
		}
	}
	return nil
}

// Failed carries an Ended for each component that ended by itself. At most 64 wait; more are dropped, for one is
// enough to go and look.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Metrics gathers the figures of all components that run in this process.
func (c *Cluster) Metrics() prometheus.Gatherer { return c.figures }

// Stop drains and stops everything that runs: gateways first, so that nobody asks a node that is gone. What
// has not ended when ctx does is ended hard. The directory is free afterwards.
func (c *Cluster) Stop(ctx context.Context) error {
	var errs []error
	for _, tier := range [][]*Member{c.gateways, c.nodes, c.coordinators} {
		var g errgroup.Group
		for _, m := range tier {
			g.Go(func() error { return m.Stop(ctx) })
		}
		errs = append(errs, g.Wait())
	}
	c.stopped.Do(func() {
		if c.spawner != nil {
			c.spawner.close()
		}
		errs = append(errs, c.layout.release(), c.lock.release())
	})
	return errors.Join(errs...)
}
