// Package gateway serves the HTTP API: it checks and packs what comes in, finds the leader of each
// partition, and speaks to it in frames. It keeps no message and no state that another gateway would
// miss: any request may go to any gateway.
//
// The way of a publish: handlePublish or handlePublishBatch (publish.go, batch.go) -> plan (plan.go: items
// to partitions, batches built) -> router.Call (internal/router: leader, stream, retries) -> answer. A
// receive: handleReceive (receive.go) -> fetch (fetch.go: one leader at a time) and, with nothing ready,
// internal/waiter. Settling: settle.go.
package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/splashdam/splashdam/gateway/internal/pack"
	"github.com/splashdam/splashdam/gateway/internal/push"
	"github.com/splashdam/splashdam/gateway/internal/router"
	"github.com/splashdam/splashdam/gateway/internal/waiter"
	"github.com/splashdam/splashdam/shared/bus"
	"github.com/splashdam/splashdam/shared/meta"
)

// Gateway is one running gateway. Its fields are set by Start and not changed after; what they point to
// may be used by any handler at once.
type Gateway struct {
	cfg     Config
	log     *slog.Logger
	reg     prometheus.Registerer
	metrics *metrics

	store  *meta.Store
	view   *meta.View
	bus    *bus.Bus
	router *router.Router
	waits  *waiter.Manager
	// renewals keeps the members of assigned groups alive that call here.
	renewals *renewals
	packer   *pack.Packer
	push     *push.Engine
	hooked   hooked

	echo     *echo.Echo
	server   *http.Server
	listener net.Listener
	self     *meta.Registration

	instance      string // random, of this run: log nodes tell a restarted gateway from one that reconnected
	requestPrefix string
	requests      atomic.Uint64
	handovers     atomic.Uint64       // numbers hand-overs; unique in this run, and so on each stream
	buffered      *semaphore.Weighted // bytes of bodies in memory, at most cfg.MaxBuffered
	reading       *semaphore.Weighted // bytes of pages of reads in memory, at most maxReading
	feeding       *semaphore.Weighted // bytes that streams have taken and not written, at most maxFeeding
	accounts      accounts            // what streams have out
	making        making              // topics and groups that are being made, by name
	began         time.Time           // see elapsed
	clock         *nodeTime           // by which it is decided whether a time has passed
	sticky        sticky              // where keyless messages go for the moment
	refusals      refusals            // where they don't go
	codecs        bodyCodecs          // of request bodies

	sockets  sync.WaitGroup  // WebSockets, which net/http does not wait for
	ready    atomic.Bool     // false from the begin of Stop: /readyz says so
	draining chan struct{}   // closed by Stop: long polls answer, streams end
	life     context.Context // ends when requests are waited for no longer
	cancel   context.CancelFunc
	work     sync.WaitGroup // goroutines of the gateway itself
	stopped  sync.Once
	stopErr  error
}

// startUndone is how long it may take to end what a start that failed has begun.
const startUndone = 5 * time.Second

// Start connects, begins to listen and returns when requests are served. ctx bounds the start only. reg
// may be nil; if it is also a prometheus.Gatherer, /metrics serves it.
func Start(ctx context.Context, cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	ln, err := listen(ctx, cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	store, err := meta.Connect(ctx, cfg.Etcd, log, cfg.Dial.Options()...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gateway: %w", err), ln.Close())
	}
	g, err := New(cfg, store, log, reg)
	if err != nil {
		return nil, errors.Join(err, store.Close(), ln.Close())
	}
	g.serve(ln)
	if err := g.join(ctx); err != nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), startUndone)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("gateway: %w", err), g.Stop(end))
	}
	g.ready.Store(true)
	return g, nil
}

// New makes a gateway over a metadata store, which it owns from here on; nothing runs yet.
func New(cfg Config, store *meta.Store, log *slog.Logger, reg prometheus.Registerer) (*Gateway, error) {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	packer, err := pack.New()
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	log = log.With(slog.String("gateway", cfg.Name))
	g := &Gateway{began: time.Now(), clock: newNodeTime(log), cfg: cfg, log: log, reg: reg, metrics: newMetrics(reg), store: store, packer: packer,
		instance: hex.EncodeToString(id[:]), draining: make(chan struct{}), buffered: semaphore.NewWeighted(cfg.MaxBuffered),
		reading: semaphore.NewWeighted(maxReading), feeding: semaphore.NewWeighted(maxFeeding)}
	g.requestPrefix = g.instance + "-"
	g.metrics.clock(reg, g.clock)
	g.view = meta.NewView(store, log, meta.WithMembers, meta.WithWebhooks)
	g.push = push.New(push.Config{Gateway: cfg.Name, Source: g.pushSource(), Now: g.clock.now, Log: log, Registry: reg})
	g.renewals = newRenewals(store, log)
	g.echo = g.newEcho()
	return g, nil
}

// serve starts the metadata view, the bus, the router and HTTP.
func (g *Gateway) serve(ln net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	g.life, g.cancel = ctx, cancel
	g.bus = bus.Connect(g.view, g.cfg.Name, g.log)
	g.router = router.New(router.Config{Gateway: g.cfg.Name, Instance: g.instance, View: g.view, Look: g.bus.Look, Freed: g.accounts.freed, Told: g.clock.told, Dial: g.cfg.Dial, Log: g.log})
	g.waits = waiter.New(waiter.Config{Most: g.cfg.MaxWaiting, Router: g.router, Bus: g.bus, Log: g.log})
	g.listener = ln
	g.server = &http.Server{
		Handler:           g.echo,
		ReadHeaderTimeout: g.cfg.HeaderTimeout,                     // a slow-loris client loses its connection
		ReadTimeout:       g.cfg.HeaderTimeout + g.cfg.BodyTimeout, // also for a body that no handler reads
		IdleTimeout:       g.cfg.IdleTimeout,
		// From the end of the headers on; streams set their own. A reader that stalls ends here.
		WriteTimeout:   g.cfg.RequestTimeout + g.cfg.BodyTimeout + time.Minute,
		MaxHeaderBytes: g.cfg.MaxHeaderBytes,
		ConnContext:    func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ErrorLog:       slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
	}
	g.own(func() {
		if err := g.view.Run(ctx); err != nil && ctx.Err() == nil {
			g.log.Error("the metadata view ended", slog.Any("error", err))
		}
	})
	g.own(func() { g.waits.Run(ctx) })
	g.own(func() { g.followWebhooks(ctx) })
	g.own(func() { g.exportDead(ctx) })
	g.own(func() { g.endWaits(ctx) })
	g.own(func() { g.renewals.run(ctx) })
	g.own(func() {
		if err := g.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			g.log.Error("HTTP ended", slog.Any("error", err))
		}
	})
}

// connKey is where a request's context has its connection.
type connKey struct{}

func (g *Gateway) own(f func()) {
	g.work.Add(1)
	go func() {
		defer g.work.Done()
		f()
	}()
}

// join waits for the first metadata and registers the gateway.
func (g *Gateway) join(ctx context.Context) error {
	if err := g.view.WaitReady(ctx, g.cfg.Etcd); err != nil {
		return err
	}
	if len(g.view.Nodes()) > 0 {
		g.awaitTime(ctx)
	}
	addr := g.cfg.Advertise
	if addr == "" {
		addr = g.listener.Addr().String()
	}
	self := meta.Gateway{Name: g.cfg.Name, Addr: addr, Started: time.Now().UTC()}
	r, err := g.store.Register(ctx, meta.GatewayKey(g.cfg.Name), self, g.cfg.LeaseTTL, nil)
	if err != nil {
		return fmt.Errorf("registering: %w", err)
	}
	g.self = r
	return nil
}

// URL is where the gateway listens.
func (g *Gateway) URL() string { return "http://" + g.listener.Addr().String() }

// Ready says whether requests should be sent here.
func (g *Gateway) Ready() bool { return g.ready.Load() }

// Stop drains: it says that it is not ready, lets long polls answer with nothing and streams end, waits
// for requests under way until ctx ends, and frees everything. It may be called more than once.
func (g *Gateway) Stop(ctx context.Context) error {
	g.stopped.Do(func() { g.stopErr = g.stop(ctx) })
	return g.stopErr
}

func (g *Gateway) stop(ctx context.Context) error {
	g.ready.Store(false)
	close(g.draining)
	var errs []error
	if g.self != nil {
		g.self.Close() // first: whoever reads the list goes elsewhere from here on
	}
	// Webhooks, requests and sockets end side by side: an endpoint that takes its time must not keep this gateway
	// answering new connections, with nothing, until it is done.
	pushed, sockets := make(chan struct{}), make(chan struct{})
	g.own(func() {
		g.push.Stop(ctx)
		close(pushed)
	})
	if err := g.server.Shutdown(ctx); err != nil {
		errs = append(errs, fmt.Errorf("requests were cut off: %w", err), g.server.Close())
	}
	g.own(func() {
		g.sockets.Wait()
		close(sockets)
	})
	select {
	case <-sockets:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("WebSockets were cut off: %w", ctx.Err()))
	}
	<-pushed // what was sent is settled while there is a router; ctx bounds it
	g.cancel()
	g.router.Close() // what still waits for an answer ends, and so do the handlers that were cut off
	g.making.end()
	g.work.Wait()
	g.bus.Close()
	errs = append(errs, g.store.Close())
	g.packer.Close()
	return errors.Join(errs...)
}
