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
	"sync/atomic"
	"time"

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

	// resign ends the campaign and the reign, waited for in ruled; cancel all the rest, waited for in done.
	resign, cancel context.CancelFunc
	ruled, done    sync.WaitGroup
	rules          atomic.Bool // this coordinator is the controller
	once           sync.Once
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
	rule, resign := context.WithCancel(run)
	c := &Coordinator{cfg: cfg, log: log.With("coordinator", cfg.Name), reg: reg, figures: f, resign: resign, cancel: cancel}
	if err := c.start(ctx, run, rule); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *Coordinator) start(ctx, run, rule context.Context) (err error) {
	if c.nats, err = startNATS(&c.cfg, c.log); err != nil {
		return err
	}
	if c.etcd, err = startEtcd(ctx, &c.cfg, c.log); err != nil {
		return err
	}
	c.store = meta.New(c.etcd.client, c.log)
	c.view = meta.NewView(c.store, c.log, meta.WithReports, meta.WithMembers)
	c.done.Go(func() {
		if err := c.view.Run(run); err != nil && !errors.Is(err, context.Canceled) {
			c.log.Error("the view ended", "err", err)
		}
	})
	c.done.Go(func() { c.etcd.keepHistory(run, c.log) })
	c.bus = bus.Connect(c.view, c.cfg.Name, c.log)
	c.entry, err = c.store.Register(ctx, meta.CoordinatorKey(c.cfg.Name),
		meta.Coordinator{Name: c.cfg.Name, EtcdClient: c.cfg.EtcdClient, NATS: c.cfg.NATS}, c.cfg.LeaseTTL, nil)
	if err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	c.ruled.Go(func() {
		err := c.store.Lead(rule, c.cfg.Name, c.cfg.LeaseTTL, c.control)
		if err != nil && !errors.Is(err, context.Canceled) {
			c.log.Error("campaigning ended", "err", err)
		}
	})
	return nil
}

// EtcdClient is where log nodes and gateways reach this coordinator's etcd, host:port.
func (c *Coordinator) EtcdClient() string { return c.cfg.EtcdClient }

// Failed is sent an error when etcd ends by itself; the owner should then stop the coordinator.
func (c *Coordinator) Failed() <-chan error { return c.etcd.server.Err() }

// Stop finishes what the controller has begun, gives leases back and ends everything, in a second or two; an etcd that does not
// answer costs a few more. It may be called more than once. An error says that ctx ended first; the rest goes on in the background.
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
	ruled := c.rules.Load()
	c.resign()
	if c.entry != nil {
		c.entry.Close()
	}
	c.ruled.Wait()
	if c.entry != nil && !ruled && len(c.cfg.Peers) > 1 {
		c.letFinish()
	}
	c.cancel()
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

// finishWait bounds how long a coordinator that stops waits for another one's last round.
const finishWait = time.Second

// letFinish waits until the controller is done with what it has begun, if that is another coordinator and etcd would lose its
// majority with this one: when all stop at once, those that do not lead would else be gone before a partition that was
// just sealed has its next segment, which nobody could open until they are back.
func (c *Coordinator) letFinish() {
	ctx, cancel := context.WithTimeout(context.Background(), finishWait)
	defer cancel()
	// This one is not among them any more. Of several that stop together the last to leave the list sees all others gone.
	stay, err := c.store.Coordinators(ctx)
	if err == nil && stay <= len(c.cfg.Peers)/2 {
		err = c.store.Vacant(ctx)
	}
	if err != nil {
		c.log.Debug("the controller was not waited for any longer", "err", err)
	}
}
