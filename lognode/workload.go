package lognode

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/lognode/internal/replica"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/metrics"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// workloadWait is how long the partitions of a node have for their figures. One that does not answer by then is left out.
const workloadWait = 5 * time.Second

// workload tells Prometheus what the topics and groups of the partitions that a node leads have to do. Every node tells of its
// own: sums over the nodes are the topic's and the group's (of the age, the maximum). All are gauges: a partition takes its figures
// along to another node, where a counter would seem to jump.
type workload struct {
	node           *Node
	topics, groups []workloadGauge

	mu     sync.Mutex // one look at a time
	oldest map[groupHere]replica.Oldest
}

// groupHere is a group in a partition.
type groupHere struct {
	partition mq.PartitionID
	group     mq.GroupID
}

type workloadGauge struct {
	desc  *prometheus.Desc
	value func(*workloadSum) float64
}

// workloadSum is summed over a node's partitions.
type workloadSum struct {
	partitions                                                            int // that have told of themselves
	messages, bytes, scheduled, lag, ready, leased, waiting, parked, dead uint64
	published, delivered                                                  float64
	age                                                                   time.Duration
}

func newWorkloadGauge(of, name, help string, value func(*workloadSum) float64) workloadGauge {
	labels := []string{"topic", "group"}
	if of == "topic" {
		labels = labels[:1]
	}
	return workloadGauge{prometheus.NewDesc(metrics.Prefix+of+"_"+name, help+", in partitions that this node leads.", labels, nil), value}
}

func newWorkload(n *Node) *workload {
	w := &workload{node: n}
	topic := func(name, help string, value func(*workloadSum) float64) {
		w.topics = append(w.topics, newWorkloadGauge("topic", name, help, value))
	}
	topic("partitions", "How many the figures of the topic are of", func(s *workloadSum) float64 { return float64(s.partitions) })
	topic("messages", "Messages that are kept", func(s *workloadSum) float64 { return float64(s.messages) })
	topic("bytes", "Bytes of one replica", func(s *workloadSum) float64 { return float64(s.bytes) })
	topic("scheduled", "Messages that wait for their time", func(s *workloadSum) float64 { return float64(s.scheduled) })
	topic("publish_rate", "Messages a second that were published lately", func(s *workloadSum) float64 { return s.published })
	topic("deliver_rate", "Messages a second that were handed out lately, to all groups", func(s *workloadSum) float64 { return s.delivered })
	group := func(name, help string, value func(*workloadSum) float64) {
		w.groups = append(w.groups, newWorkloadGauge("group", name, help, value))
	}
	group("lag", "Messages that are neither acknowledged nor dead", func(s *workloadSum) float64 { return float64(s.lag) })
	group("ready", "Messages that a consumer would be given now", func(s *workloadSum) float64 { return float64(s.ready) })
	group("in_flight", "Messages that are leased", func(s *workloadSum) float64 { return float64(s.leased) })
	group("waiting", "Messages that wait for a retry", func(s *workloadSum) float64 { return float64(s.waiting) })
	group("parked", "Messages that wait behind others of their keys", func(s *workloadSum) float64 { return float64(s.parked) })
	group("dead", "Dead letters", func(s *workloadSum) float64 { return float64(s.dead) })
	group("oldest_age_seconds", "Age of the oldest message of the lag", func(s *workloadSum) float64 { return s.age.Seconds() })
	return w
}

// Describe is for Prometheus.
func (w *workload) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range w.topics {
		ch <- g.desc
	}
	for _, g := range w.groups {
		ch <- g.desc
	}
}

// Collect is for Prometheus. It asks every partition that this node leads, and reads the oldest message of a group's lag where
// that is another one than at the look before.
func (w *workload) Collect(ch chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	topics, groups := w.look()
	tell := func(sum *workloadSum, gauges []workloadGauge, labels ...string) {
		if sum.partitions == 0 {
			return // nobody knows: 0 would say that there is nothing
		}
		for _, g := range gauges {
			ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(sum), labels...)
		}
	}
	for topic, sum := range topics {
		tell(sum, w.topics, topic)
	}
	for of, sum := range groups {
		tell(sum, w.groups, of[0], of[1])
	}
}

// look sums up by the names of topics, and of topics and groups. w.mu is held.
func (w *workload) look() (map[string]*workloadSum, map[[2]string]*workloadSum) {
	var asks []func(done func())
	topics, groups := map[string]*workloadSum{}, map[[2]string]*workloadSum{}
	known, oldest, now := w.oldest, map[groupHere]replica.Oldest{}, w.node.env.Clock.Now()
	var sums sync.Mutex // of what follows, which partitions add to side by side
	over := false
	add := func(f func()) {
		sums.Lock()
		defer sums.Unlock()
		if !over {
			f()
		}
	}
	for p, t := range w.node.led() {
		sum := sumOf(topics, t.Name)
		asks = append(asks, func(done func()) {
			p.Figures(nil, func(f *mqpb.PartitionFigures) {
				add(func() { sum.addPartition(f) })
				done()
			})
		})
		for _, g := range w.node.view.Groups(t.ID) {
			here, sum := groupHere{p.ID(), g.ID}, sumOf(groups, [2]string{t.Name, g.Name})
			asks = append(asks, func(done func()) {
				p.GroupFigures(g.ID, known[here], func(f *mqpb.GroupFigures) {
					add(func() {
						sum.addGroup(f, now)
						oldest[here] = replica.Oldest{Cursor: f.GetCursor(), Stamp: f.GetOldestStamp()}
					})
					done()
				})
			})
		}
	}
	ctx, cancel := context.WithTimeout(w.node.ctx, workloadWait)
	defer cancel()
	if err := gather(ctx, len(asks), func(i int, done func()) { asks[i](done) }); err != nil {
		w.node.log.Warn("not every partition has told its figures in time", "err", err)
	}
	sums.Lock()
	defer sums.Unlock()
	over = true
	w.oldest = oldest
	return topics, groups
}

// sumOf is the sum of a name, a new one at first.
func sumOf[K comparable](sums map[K]*workloadSum, name K) *workloadSum {
	if sums[name] == nil {
		sums[name] = &workloadSum{}
	}
	return sums[name]
}

func (s *workloadSum) addPartition(f *mqpb.PartitionFigures) {
	if f.GetCode() != uint32(mqerr.OK) {
		return
	}
	s.partitions++
	s.messages += f.GetNext() - f.GetFirst() - f.GetLost()
	s.bytes += f.GetBytes()
	s.scheduled += f.GetScheduled()
	s.published += f.GetPublishRate()
	s.delivered += f.GetDeliverRate()
}

func (s *workloadSum) addGroup(f *mqpb.GroupFigures, now int64) {
	if f.GetCode() != uint32(mqerr.OK) {
		return
	}
	s.partitions++
	s.lag += f.GetLag()
	s.ready += f.GetReady()
	s.leased += f.GetLeased()
	s.waiting += f.GetWaiting()
	s.parked += f.GetParked()
	s.dead += f.GetDead()
	if stamp := f.GetOldestStamp(); stamp > 0 && f.GetLag() > 0 {
		s.age = max(s.age, time.Duration(now-stamp))
	}
}

// led are the partitions of which etcd names this run as the leader, with their topics.
func (n *Node) led() map[*replica.Partition]meta.Topic {
	out := map[*replica.Partition]meta.Topic{}
	id := n.store.Identity()
	for _, h := range n.view.HeadsOf(id.Store) {
		if h.Open == nil || h.Open.Leader != id {
			continue
		}
		p := n.known(h.Partition)
		if t, ok := n.view.TopicByID(h.Partition.Topic); ok && p != nil {
			out[p] = t
		}
	}
	return out
}
