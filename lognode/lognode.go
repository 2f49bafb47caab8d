// Package lognode is the tier that owns data: it stores segments of partitions, replicates them, decides
// deliveries and keeps their times. What gateways ask and other nodes send comes in through streams.go, control calls
// through control.go; what goes out to other nodes is in peers.go. Each partition is owned by one goroutine of
// internal/replica.
package lognode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/splashdam/splashdam/lognode/internal/archive"
	"github.com/splashdam/splashdam/lognode/internal/replica"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/bus"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// maxReaders bounds what a node reads from disk or from others at the same time, beside its partitions.
const maxReaders = 64

// lossPatience is how long a leader looks for what it can't find before it judges whether that is lost.
const lossPatience = time.Second

// Node is one log node.
type Node struct {
	cfg   Config
	log   *slog.Logger
	store *store.Store
	meta  *meta.Store
	view  *meta.View
	bus   *bus.Bus
	env   *replica.Env
	peers *peers
	wants *wants

	server   *grpc.Server
	listener net.Listener
	standing *standing
	failed   chan error // capacity 1

	mu         sync.Mutex
	partitions map[mq.PartitionID]*replica.Partition
	made       []mq.PartitionID // since follow looked last, which is every few seconds
	streams    uint64           // the last gateway stream's number
	repairing  map[mq.SegmentID]bool
	listed     map[mq.SegmentID]bool // sealed segments of which etcd had this node as a holder; replaced, never changed
	// stale is of which partitions etcd says less than this store has seen, since when; zero once that was said aloud.
	// follow's goroutine owns it.
	stale map[mq.PartitionID]time.Time

	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// Start opens the store, registers the node and serves. ctx bounds the start only. The first
// start waits for a coordinator to name the cluster.
func Start(ctx context.Context, cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("lognode: configuration: %w", err)
	}
	if err := makeDir(cfg.Dir); err != nil {
		return nil, fmt.Errorf("lognode: %w", err)
	}
	n := &Node{cfg: cfg, log: log.With("node", cfg.Name), partitions: map[mq.PartitionID]*replica.Partition{},
		failed: make(chan error, 1), repairing: map[mq.SegmentID]bool{}, stale: map[mq.PartitionID]time.Time{}}
	n.ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := n.start(ctx, reg); err != nil {
		return nil, errors.Join(fmt.Errorf("lognode %s: %w", cfg.Name, err), n.close(context.WithoutCancel(ctx)))
	}
	return n, nil
}

func (n *Node) start(ctx context.Context, reg prometheus.Registerer) (err error) {
	if n.listener, err = net.Listen("tcp", n.cfg.Listen); err != nil {
		return err
	}
	if n.store, err = store.Open(n.cfg.store(), n.log, reg); err != nil {
		return err
	}
	if n.meta, err = meta.Connect(ctx, n.cfg.Etcd, n.log, n.cfg.Dial.Options()...); err != nil {
		return err
	}
	n.view = meta.NewView(n.meta, n.log)
	n.goRun(func() { _ = n.view.Run(n.ctx) })
	if err := n.join(ctx); err != nil {
		return err
	}
	n.bus = bus.Connect(n.view, n.cfg.Name, n.log)
	n.peers = newPeers(n)
	n.wants = newWants(n)
	clock := replica.NewClock()
	n.env = &replica.Env{Clock: clock, NobodyTells: func() bool { return len(n.view.Nodes()) < 3 }, Log: n.log, Store: n.store, Peers: n.peers, Chain: chain{n.meta, n.view}, Timers: replica.NewTimers(clock),
		Cache: &replica.EntryCache{}, Wake: n.wakeGateways, WantSeal: func(id mq.SegmentID, reason string) { n.wants.seal(reason, id) }, Opening: n.wants.opens, Late: n.wants.lags,
		Metrics: replica.NewMetrics(reg), SegmentBytes: n.cfg.SegmentBytes, SealHere: (&server{node: n}).Seal, LossPatience: lossPatience, Readers: make(chan struct{}, maxReaders)}
	if n.cfg.ArchiveURL != "" {
		if n.env.Archive, err = archive.Open(ctx, n.cfg.ArchiveURL, n.view.ClusterID()); err != nil {
			return err
		}
		n.log.Info("this node archives", "bucket", archive.Shown(n.cfg.ArchiveURL))
	}
	reg.MustRegister(newWorkload(n))
	for _, info := range n.store.Segments() {
		n.partition(info.Segment.Partition).Adopt(info)
	}
	n.server = grpc.NewServer(link.ServerOptions()...)
	mqpb.RegisterLogNodeServer(n.server, &server{node: n})
	n.goRun(func() { _ = n.server.Serve(n.listener) })
	n.goRun(n.follow)
	n.goRun(n.wants.run)
	n.goRun(n.tidy)
	n.goRun(n.repair)
	n.goRun(n.deriveFooters)
	n.goRun(n.copyAtOnce)
	n.goRun(n.restore)
	n.goRun(n.mirror)
	n.goRun(n.watchStore)
	if n.standing, err = n.register(ctx); err != nil {
		return err
	}
	id := n.store.Identity()
	n.log.Info("log node serves", "addr", n.address(), "store", id.Store, "boot", id.Boot)
	return nil
}

// join waits for the cluster's name and makes sure that this store belongs to it and is no old copy.
func (n *Node) join(ctx context.Context) error {
	if err := n.view.WaitReady(ctx, n.cfg.Etcd); err != nil {
		return err
	}
	err := n.view.WaitFor(ctx, func(v *meta.View) bool { number, _ := v.NewestSecret(); return v.ClusterID() != "" && number > 0 })
	if err != nil {
		return fmt.Errorf("the cluster has no name yet: %w", err)
	}
	if err := n.store.SetClusterID(n.view.ClusterID()); err != nil {
		return fmt.Errorf("%w; if the coordinators lost their data, start them in empty directories with --recover-cluster %s",
			err, n.store.ClusterID())
	}
	return n.meta.RaiseBoot(ctx, n.store.Identity())
}

// healthy gates every sign of life: a node whose disk stalls or failed is not alive, whatever its process does.
func (n *Node) healthy(ctx context.Context) error {
	if err := n.store.Err(); err != nil {
		return err
	}
	return n.store.Probe(ctx)
}

// Addr is where the node serves gRPC.
func (n *Node) Addr() string { return n.listener.Addr().String() }

// address is what the node registers; the port is the real one where the configured one is 0.
func (n *Node) address() string {
	if _, port, err := net.SplitHostPort(n.cfg.advertise()); err == nil && port == "0" {
		return n.Addr()
	}
	return n.cfg.advertise()
}

// goRun runs f on a goroutine that close waits for.
func (n *Node) goRun(f func()) {
	n.work.Add(1)
	go func() {
		defer n.work.Done()
		f()
	}()
}

// partition is the partition's owner here, made when it is first needed.
func (n *Node) partition(id mq.PartitionID) *replica.Partition {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.partitions[id]
	if p == nil {
		p = replica.New(n.env, id)
		n.partitions[id] = p
		n.made = append(n.made, id)
	}
	return p
}

// known is the partition's owner here, or nil.
func (n *Node) known(id mq.PartitionID) *replica.Partition {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.partitions[id]
}

func (n *Node) all() []*replica.Partition {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]*replica.Partition, 0, len(n.partitions))
	for _, p := range n.partitions {
		out = append(out, p)
	}
	return out
}

func (n *Node) wakeGateways(p mq.PartitionID, g mq.GroupID) {
	n.bus.PublishWake(p.Topic, bus.Pair{Partition: p.Number, Group: g})
}

// Failed carries the error of a node that can't go on: its store failed. It acknowledges nothing then and has lost
// its registration; the process should end and be started again.
func (n *Node) Failed() <-chan error { return n.failed }

// Stop lets the controller move what this node leads while other nodes can take it, gives up the registration, and
// ends everything within seconds.
func (n *Node) Stop(ctx context.Context) error {
	if n.standing != nil {
		n.standing.leave(ctx)
		n.standing = nil
	}
	n.bus.Look("node " + n.cfg.Name + " stops")
	return n.close(ctx)
}

// close ends what start began, in the opposite order; it also serves a start that failed half way.
func (n *Node) close(ctx context.Context) error {
	if n.standing != nil {
		n.standing.close()
	}
	began := time.Now()
	n.closePartitions()
	partitions := time.Since(began)
	n.cancel()
	if n.server != nil {
		n.stopServer(ctx)
	} else if n.listener != nil {
		n.listener.Close()
	}
	server := time.Since(began)
	if n.peers != nil {
		n.peers.close()
	}
	n.work.Wait()
	n.closePartitions() // those that a head or a control call has made meanwhile
	var errs []error
	if n.env != nil {
		n.env.Timers.Close()
		if n.env.Archive != nil {
			errs = append(errs, n.env.Archive.Close())
		}
	}
	if n.bus != nil {
		n.bus.Close()
	}
	if n.meta != nil {
		errs = append(errs, n.meta.Close())
	}
	clients := time.Since(began)
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	n.log.Info("log node ended", "partitions after", partitions, "server after", server, "clients after", clients, "store after", time.Since(began))
	return errors.Join(errs...)
}

func (n *Node) closePartitions() {
	n.mu.Lock()
	partitions := n.partitions
	n.partitions = map[mq.PartitionID]*replica.Partition{}
	n.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range partitions {
		wg.Go(p.Close)
	}
	wg.Wait()
}

// stopServer lets control calls that are under way finish, for a moment; the streams end at once, as their
// partitions are closed.
func (n *Node) stopServer(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.server.GracefulStop()
	}()
	wait := time.NewTimer(300 * time.Millisecond)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
		n.server.Stop()
	case <-ctx.Done():
		n.server.Stop()
	}
	<-done
}

// chain is what partitions need of etcd.
type chain struct {
	*meta.Store
	view *meta.View
}

// Groups are a topic's groups, and Topic the topic, as the view has them.
func (c chain) Groups(t mq.TopicID) []meta.Group { return c.view.Groups(t) }

// Topic see Groups.
func (c chain) Topic(t mq.TopicID) (meta.Topic, bool) { return c.view.TopicByID(t) }

// Owner and Assignment say whose the partitions of a group with members are, as the view has it.
func (c chain) Owner(g mq.GroupID, partition uint32) (string, uint64) {
	return c.view.Owner(g, partition)
}

// Assignment see Owner.
func (c chain) Assignment(g mq.GroupID) (meta.Assignment, <-chan struct{}) {
	return c.view.Assignment(g)
}
