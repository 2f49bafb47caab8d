// Package coordinator is the tier that holds the cluster's metadata: a member of etcd, a NATS server for
// hints, and, in the one coordinator that holds the controller's lease, the loops that open, seal and move segments.
// It is not on the path of any message.
package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/shared/bus"
	"github.com/splashdam/splashdam/shared/meta"
)

// Coordinator is a running coordinator; Stop ends it.
type Coordinator struct {
	cfg     Config
	log     *slog.Logger
	reg     prometheus.Registerer
	figures *figures

	etcd  *etcd
	nats  *natsserver.Server
	store *meta.Store
	view  *meta.View
	bus   *bus.Bus
	entry *meta.Registration

	cancel context.CancelFunc
	done   sync.WaitGroup
	once   sync.Once
}

// Start starts a coordinator. With peers it returns once a majority of them is up, so start them at the same
// time; ctx bounds the start only. reg may be nil.
func Start(ctx context.Context, cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Coordinator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	f, err := newFigures(reg)
	if err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.Background())
	c := &Coordinator{cfg: cfg, log: log.With("coordinator", cfg.Name), reg: reg, figures: f, cancel: cancel}
	if err := c.start(ctx, run); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *Coordinator) start(ctx, run context.Context) (err error) {
	if c.nats, err = startNATS(&c.cfg, c.log); err != nil {
		return err
	}
	if c.etcd, err = startEtcd(ctx, &c.cfg, c.log); err != nil {
		return err
	}
	c.store = meta.New(c.etcd.client, c.log)
	c.view = meta.NewView(c.store, c.log, meta.WithReports, meta.WithMembers)
	c.spawn(func() {
		if err := c.view.Run(run); err != nil && !errors.Is(err, context.Canceled) {
			c.log.Error("the view ended", "err", err)
		}
	})
	c.bus = bus.Connect(c.view, c.cfg.Name, c.log)
	c.entry, err = c.store.Register(ctx, meta.CoordinatorKey(c.cfg.Name),
		meta.Coordinator{Name: c.cfg.Name, EtcdClient: c.cfg.EtcdClient, NATS: c.cfg.NATS}, c.cfg.LeaseTTL, nil)
	if err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	c.spawn(func() {
		err := c.store.Lead(run, c.cfg.Name, c.cfg.LeaseTTL, c.control)
		if err != nil && !errors.Is(err, context.Canceled) {
			c.log.Error("campaigning ended", "err", err)
		}
	})
	return nil
}

func (c *Coordinator) spawn(f func()) {
	c.done.Add(1)
	go func() {
		defer c.done.Done()
		f()
	}()
}

// EtcdClient is where log nodes and gateways reach this coordinator's etcd, host:port.
func (c *Coordinator) EtcdClient() string { return c.cfg.EtcdClient }

// Failed is sent an error when etcd ends by itself; the owner should then stop the coordinator.
func (c *Coordinator) Failed() <-chan error { return c.etcd.server.Err() }

// Stop gives leases back and ends everything, in a second or two. It may be called more than once. An error says
// that ctx ended first; the rest goes on in the background.
func (c *Coordinator) Stop(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.once.Do(c.stop)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("coordinator: stopping: %w", ctx.Err())
	}
}

// stop ends what was started, the last first; also what a failed start left.
func (c *Coordinator) stop() {
	c.cancel()
	if c.entry != nil {
		c.entry.Close()
	}
	if c.bus != nil {
		c.bus.Close()
	}
	c.done.Wait()
	if c.etcd != nil {
		c.etcd.stop()
	}
	if c.nats != nil {
		stopNATS(c.nats)
	}
	c.figures.unregister(c.reg)
}
