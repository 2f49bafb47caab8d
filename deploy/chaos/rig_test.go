package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/splashdam/splashdam/deploy/cluster"
	"github.com/splashdam/splashdam/gateway"
	"github.com/splashdam/splashdam/lognode"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

const (
	nodes      = 3
	partitions = 8
	// patience bounds what must not hang. It is no promise: the machine may be busy with other things.
	patience = 2 * time.Minute
	// diskBytes is the size of the victim's disk, where one can be mounted.
	diskBytes = 768 << 20
)

// setup says what a rig is made of.
type setup struct {
	coordinators, gateways int
	disk                   bool          // the victim has a small disk of its own, if that is allowed here
	every                  time.Duration // between the publishes of a producer
}

// rig is a cluster of processes under load.
type rig struct {
	setup
	t       *testing.T
	dir     string
	cluster *cluster.Cluster
	any     *client.Client // goes to whichever gateway answers
	traffic *traffic
	side    *traffic // a smaller load beside it, with streams and webhooks; nil for none
	random  *rand.Rand
	start   time.Time
	seed    uint64
	// victim is the one node (1 to 3) to which things happen that replication can't stand twice.
	victim  int
	mounted bool // the victim's directory is a small disk of its own
	counts  map[string]int
	between int          // partitions that the end of all coordinators met between two segments
	away    map[int]bool // gateways that do not run, on purpose
}

// newRig starts everything.
func newRig(t *testing.T, seed uint64, s setup) *rig {
	t.Helper()
	r := &rig{setup: s, t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)), counts: map[string]int{}, away: map[int]bool{}, start: time.Now()}
	r.victim = 1 + r.random.IntN(nodes)
	var err error
	if r.dir, err = os.MkdirTemp("", fmt.Sprintf("chaos-%d-", seed)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.clean)
	if s.disk {
		r.mount()
	}
	if err := r.followClocks(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r.cluster, err = cluster.Start(ctx, cluster.Options{Dir: r.dir, Coordinators: s.coordinators, Nodes: nodes, Gateways: s.gateways,
		Processes:     &cluster.Processes{LogLevel: slog.LevelInfo},
		GatewayConfig: func(_ int, cfg *gateway.Config) { cfg.WebhooksAllowPrivate = true },
		NodeConfig:    func(_ int, cfg *lognode.Config) { cfg.SegmentBytes, cfg.VolumeBytes = 4<<20, 8<<20 }})
	if err != nil {
		t.Fatalf("%v (logs in %s)", err, r.dir)
	}
	if r.any, err = client.New(client.Options{Servers: r.cluster.URLs()}); err != nil {
		t.Fatal(err)
	}
	const topic = "chaos"
	count, replicas := uint32(partitions), nodes // by default there are as many replicas as nodes are registered just now
	if _, err := r.any.CreateTopic(ctx, topic, api.TopicInput{Partitions: &count, Replicas: &replicas}); err != nil {
		t.Fatalf("making the topic: %v (logs in %s)", err, r.dir)
	}
	if r.traffic, err = newTraffic(r.cluster.URLs(), topic, seed, partitions, s.every); err != nil {
		t.Fatal(err)
	}
	r.say("seed %d, data and logs in %s, victim node-%d", seed, r.dir, r.victim)
	return r
}

// The load beside: small, so that what it costs is little beside the other one.
const (
	sideTopic      = "chaos-streams"
	sidePartitions = 4
	sideEvery      = 250 * time.Millisecond
)

// beside begins a load with all ways to consume, on a topic of its own.
func (r *rig) beside(ctx context.Context) {
	r.t.Helper()
	count, replicas := uint32(sidePartitions), nodes
	_, err := r.any.CreateTopic(ctx, sideTopic, api.TopicInput{Partitions: &count, Replicas: &replicas})
	var side *traffic
	if err == nil {
		side, err = newTraffic(r.cluster.URLs(), sideTopic, r.seed+1, sidePartitions, sideEvery)
	}
	if err == nil {
		err = side.makeStreams(ctx, r.any)
	}
	if err != nil {
		r.t.Fatalf("the load beside: %v (logs in %s)", err, r.dir)
	}
	r.side = side
	side.start(context.WithoutCancel(r.t.Context()), 1)
	side.stream()
}

// loads are all of them.
func (r *rig) loads() []*traffic {
	if r.side == nil {
		return []*traffic{r.traffic}
	}
	return []*traffic{r.traffic, r.side}
}

// trouble says to all judges that a fault begins; what it returns, that it has ended.
func (r *rig) trouble() (ended func()) {
	var all []func()
	for _, tr := range r.loads() {
		all = append(all, tr.disturb())
	}
	return func() {
		for _, end := range all {
			end()
		}
	}
}

// load begins to publish and to consume.
func (r *rig) load() { r.traffic.start(context.WithoutCancel(r.t.Context()), 4) }

// mix lets the load use all that a topic can do.
func (r *rig) mix(ctx context.Context) {
	r.t.Helper()
	if err := makeGroups(ctx, r.any, r.traffic.topic); err != nil {
		r.t.Fatalf("making the groups: %v (logs in %s)", err, r.dir)
	}
	r.traffic.mix()
}

// say writes what happens, with the time since the start, so that it can be found in the logs.
func (r *rig) say(format string, args ...any) {
	r.t.Logf("%s %7.2fs %s", time.Now().UTC().Format("15:04:05.000"), time.Since(r.start).Seconds(), fmt.Sprintf(format, args...))
}

// nodeDir is where a node keeps its data.
func (r *rig) nodeDir(i int) string {
	return filepath.Join(r.dir, fmt.Sprintf("node-%d", i))
}

func (r *rig) mount() {
	dir := r.nodeDir(r.victim)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := mountDisk(dir, diskBytes); err != nil {
		r.say("no disk-full: %v", err)
		return
	}
	r.mounted = true
}

// clean ends what runs. What a failed run left stays, to be looked at.
func (r *rig) clean() {
	if r.traffic != nil {
		for _, tr := range r.loads() {
			tr.end()
		}
	}
	if r.cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := r.cluster.Stop(ctx); err != nil {
			r.t.Errorf("stopping everything: %v", err)
		}
	}
	if r.any != nil {
		r.any.Close()
	}
	keep := r.t.Failed() || *flags.keep
	if r.mounted {
		if keep {
			r.rescue()
		}
		if err := unmountDisk(r.nodeDir(r.victim)); err != nil {
			r.t.Errorf("unmounting: %v", err)
		}
	}
	if keep {
		r.say("data and logs are in %s", r.dir)
		return
	}
	if err := os.RemoveAll(r.dir); err != nil {
		r.t.Error(err)
	}
}

// rescue copies the victim's disk, which goes with the unmounting.
func (r *rig) rescue() {
	from := r.nodeDir(r.victim)
	if err := os.CopyFS(from+"-copy", os.DirFS(from)); err != nil {
		r.say("the victim's disk could not be copied: %v", err)
	}
}

// calm waits until everything is healed: every partition has a leader and all its replicas, alive and not far
// behind, all gateways that run say so, and every partition acknowledges publishes again.
func (r *rig) calm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before := r.traffic.gaps.counts()
	for {
		err := r.whole(ctx)
		if err == nil && r.traffic.gaps.grew(before) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("publishes in each partition were %v and are %v", before, r.traffic.gaps.counts())
		}
		select {
		case failure := <-r.cluster.Failed():
			return failure
		default:
		}
		if ctx.Err() != nil {
			return fmt.Errorf("not healed after %s: %w", patience, err)
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// whole says why the cluster is not healed yet.
func (r *rig) whole(ctx context.Context) error {
	const near = 256 << 10
	for i, c := range r.traffic.one {
		if r.away[i+1] {
			continue
		}
		call, cancel := context.WithTimeout(ctx, 5*time.Second)
		topic, err := c.Topic(call, r.traffic.topic)
		cancel()
		if err != nil {
			return fmt.Errorf("gateway-%d: %w", i+1, err)
		}
		for _, p := range topic.Partitions {
			if p.Error != nil {
				return fmt.Errorf("gateway-%d: partition %d: %s %s", i+1, p.Partition, p.Error.Code, p.Error.Detail)
			}
			if p.Leader == "" || len(p.Replicas) != nodes {
				return fmt.Errorf("gateway-%d: partition %d has leader %q and %d replicas", i+1, p.Partition, p.Leader, len(p.Replicas))
			}
			for _, x := range p.Replicas {
				if !x.Alive || x.BehindBytes == nil || *x.BehindBytes > near {
					return fmt.Errorf("gateway-%d: partition %d: replica on %s, alive: %v, is too far behind, or that is not known",
						i+1, p.Partition, x.Node, x.Alive)
				}
			}
		}
	}
	return nil
}

// leads counts the partitions that each node leads, by the node's number.
func (r *rig) leads(ctx context.Context) (map[int][]int, error) {
	topic, err := r.any.Topic(ctx, r.traffic.topic)
	if err != nil {
		return nil, err
	}
	out := map[int][]int{}
	for _, p := range topic.Partitions {
		for i := 1; i <= nodes; i++ {
			if r.cluster.Node(i).Name() == p.Leader {
				out[i] = append(out[i], int(p.Partition))
			}
		}
	}
	return out, nil
}
