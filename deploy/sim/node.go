package sim

import (
	"errors"
	"slices"
	"time"

	coordinator "github.com/splashdam/splashdam/coordinator/simulate"
	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

var nodeNames = []string{"node-1", "node-2", "node-3"}

// node is a log node's machine: its process, its disk, and what connects a run to the rest.
type node struct {
	*process
	sim     *Sim
	run     *lognode.Node // nil while it is down
	disk    *lognode.Disk
	wiped   int
	streams []*stream // to the others
	watch   *watcher
	view    *view
	asks    map[mq.SegmentID]bool
	stalled int64 // until then no sync ends
	heavy   int64 // each sync takes up to so much longer, but no less than half of it
	failing bool  // the next sync fails
	skewed  bool  // it says that its clock is off
	slow    bool  // it says that its disk is slow
}

func (s *Sim) newNode(i int) *node {
	n := &node{process: s.newProcess(nodeNames[i]), sim: s, asks: map[mq.SegmentID]bool{}}
	n.disk = lognode.NewDisk(mq.StoreID(nodeNames[i] + ".0"))
	n.drift = s.between(-100, 100)
	n.watch = s.etcd.watch(n.process, func(v *view) { n.take(v) })
	return n
}

// boot starts a run.
func (n *node) boot() {
	n.process.start()
	n.stalled, n.failing, n.skewed, n.slow = 0, false, false, false
	n.asks = map[mq.SegmentID]bool{}
	n.run = lognode.Start(n.host(), n.disk)
	n.streams = nil
	for _, to := range n.sim.nodes {
		if to != n {
			n.connect(to)
		}
	}
	n.watch.seen, n.watch.next, n.view = -1, 0, nil
	n.every(leaseTTL/4, n.keepAlive)
	n.every(250*millisecond, n.report)
	n.every(200*millisecond, n.beat)
	n.every(500*millisecond, n.watchClock)
	n.every(500*millisecond, n.watchDisk)
	n.every(3*second, func() { n.run.Tidy() })
	looks := 0
	n.every(2*second, func() {
		if looks++; n.view != nil {
			n.run.Repair(n.view.heads, looks%5 == 2)
		}
	})
	n.every(second, func() { // somebody notices that the disk failed, and starts the node again
		if n.disk.Failed() {
			n.sim.restartLater(n, n.sim.between(100*millisecond, 3*second))
		}
	})
}

// crash ends the run. A part of what waited for the disk may have reached it.
func (n *node) crash() {
	if !n.up {
		return
	}
	n.process.end()
	n.run = nil
	if w := n.disk.Waiting(); w > 0 {
		n.disk.Crash(n.sim.rng.IntN(w + 1))
	} else {
		n.disk.Crash(0)
	}
}

// every runs f again and again while this run lives.
func (n *node) every(d int64, f func()) {
	f()
	n.sim.in(d, n.process, func() { n.every(d, f) })
}

func (n *node) host() *lognode.Host {
	s := n.sim
	return &lognode.Host{
		Now:    func() int64 { return s.clock(n.process) },
		Steady: func() int64 { return s.steady(n.process) },
		True:   func() int64 { return s.now },
		After: func(d time.Duration, f func()) {
			s.in(int64(d), n.process, f)
		},
		Sync:         n.sync,
		Send:         n.send,
		Connected:    func(to mq.StoreID) bool { st := n.streamTo(to); return st != nil && st.up },
		Call:         n.call,
		Chain:        n.chain,
		RecordLost:   n.recordLost,
		Force:        n.force,
		WantSeal:     func(id mq.SegmentID, _ string) { n.asks[id] = true },
		Fault:        func(err error) { s.fail("%s: %v", n.name, err) },
		Groups:       s.groups,
		SegmentBytes: 24 << 10, CheckpointBytes: 8 << 10,
		Mutation: s.Node,
	}
}

func (n *node) sync() (time.Duration, bool) {
	s := n.sim
	d := s.between(300_000, 4*millisecond)
	if n.heavy > 0 {
		d += s.between(n.heavy/2, n.heavy)
	}
	if n.stalled > s.now {
		d += n.stalled - s.now
	}
	ok := !n.failing
	n.failing = false
	return time.Duration(d), ok
}

func (n *node) healthy() bool { return !n.disk.Failed() && n.stalled <= n.sim.now }

// byStore is the node whose store, of now or of before, has an id; the name is what an address stands for.
func (s *Sim) byName(name string) *node {
	for _, n := range s.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

func (n *node) streamTo(to mq.StoreID) *stream {
	for i, m := range n.sim.others(n) {
		if m.disk.Store == to {
			return n.streams[i]
		}
	}
	return nil
}

func (s *Sim) others(n *node) (out []*node) {
	for _, m := range s.nodes {
		if m != n {
			out = append(out, m)
		}
	}
	return out
}

// connect makes the stream on which this node's entries go to another one.
func (n *node) connect(to *node) {
	st := &stream{n: n.sim.net, from: n.process, to: to.process, fromG: n.gen}
	store := func() mq.StoreID { return to.disk.Store }
	up := func() {}
	st.onUp = func() { up() }
	up = func() {
		epoch := st.epoch
		st.put(0, func() { // the follower says something, and only that makes it a stream
			to.run.Heard(n.disk.Store)
			st.put(1, func() {
				if st.epoch == epoch {
					n.run.Heard(store())
					n.run.PeerUp(store())
				}
			})
		})
	}
	st.onDown = func() {
		n.run.PeerDown(store())
		n.sim.look()
	}
	n.streams = append(n.streams, st)
	n.sim.in(n.sim.between(1, 50)*millisecond, n.process, st.dial)
}

func (n *node) send(to mq.StoreID, m any) bool {
	st := n.streamTo(to)
	if st == nil {
		return false
	}
	target, from := n.sim.byProcess(st.to), n.run.Identity()
	return st.put(0, func() {
		target.run.FromLeader(from, m, func(a frame.Ack) {
			store := target.disk.Store
			st.put(1, func() { n.run.FromFollower(store, a) })
		})
	})
}

func (s *Sim) byProcess(p *process) *node { return s.byName(p.name) }

// beat says something on every stream, in both directions.
func (n *node) beat() {
	for i, to := range n.sim.others(n) {
		st := n.streams[i]
		from, clock := n.disk.Store, n.sim.clock(n.process)
		st.put(0, func() { to.run.Beat(from, clock) })
		if to.up {
			back, clock := to.disk.Store, n.sim.clock(to.process)
			st.put(1, func() { n.run.Beat(back, clock) })
		}
	}
}

func (n *node) call(to mq.Replica, run func(*lognode.Node, func(any)), done func(any, bool)) {
	target := n.sim.byName(to.Node)
	if target == n { // a call to oneself crosses no network
		n.sim.in(0, n.process, func() { run(n.run, func(res any) { done(res, true) }) })
		return
	}
	n.sim.net.call(n.process, target.process, callTimeout, func(reply func(any)) { run(target.run, reply) }, done)
}

func (n *node) chain(p mq.PartitionID, done func(mq.Head, []mq.Segment, bool)) {
	type answer struct {
		head   mq.Head
		sealed []mq.Segment
	}
	e := n.sim.etcd
	e.do(n.process, func() any { return answer{*e.find(p), e.chain(p)} }, func(res any, ok bool) {
		a, _ := res.(answer)
		done(a.head, a.sealed, ok)
	})
}

func (n *node) recordLost(h mq.Head, seg mq.Segment, held mq.Position, forced bool, done func(error)) {
	by := ""
	if forced {
		by = operator
	}
	e := n.sim.etcd
	e.do(n.process, func() any { e.recordLost(h, &seg, held, by); return nil }, func(_ any, ok bool) {
		if !ok {
			done(errors.New("the outcome is unknown"))
			return
		}
		done(nil)
	})
}

func (n *node) force(p mq.PartitionID, open mq.SegmentID, done func(*lognode.Force, bool)) {
	e := n.sim.etcd
	e.do(n.process, func() any { return e.forces[p] }, func(res any, ok bool) {
		if f, _ := res.(force); ok && f.segment == open {
			done(&lognode.Force{Store: f.Store, Empty: f.Empty}, true)
			return
		}
		done(nil, ok)
	})
}

func (n *node) keepAlive() {
	if n.healthy() {
		m := coordinator.Member{Name: n.name, Incarnation: n.run.Identity(), Skewed: n.skewed, Slow: n.slow}
		n.sim.etcd.do(n.process, func() any { n.sim.etcd.keep(m); return nil }, func(any, bool) {})
	}
}

// watchClock has the node compare its clock with the others'.
func (n *node) watchClock() {
	if n.view == nil {
		return
	}
	others, leads := 1, false // this one follows
	for _, m := range n.view.nodes {
		if m.Name != n.name {
			others++
			leads = leads || !m.Skewed
		}
	}
	if !leads {
		others = 0
	}
	n.skewed = n.run.WatchClock(n.view.heads, others)
}

// watchDisk has the node compare its disk with the others'.
func (n *node) watchDisk() {
	if n.view == nil {
		return
	}
	said, others, leads := true, 0, false
	for _, m := range n.view.nodes {
		if m.Name == n.name {
			said = m.Slow
		} else if !m.Slow {
			others++
			leads = leads || !m.Skewed
		}
	}
	if !leads {
		others = 0
	}
	n.slow = n.run.WatchDisk(n.view.heads, said, others)
}

// report tells the controller what this node wants, on change and to keep its lease.
func (n *node) report() {
	if n.view == nil {
		return
	}
	r := report{flagged: n.run.Flags(n.view.heads)}
	for _, h := range n.view.heads {
		if h.Open != nil && h.Open.Leader == n.run.Identity() && n.asks[h.Open.ID] {
			r.asked = append(r.asked, h.Open.ID)
		}
	}
	r.opening, r.copied = n.run.Opening(n.view.heads), n.run.Copied(n.view.heads)
	slices.Sort(r.asked)
	store := n.disk.Store
	n.sim.etcd.do(n.process, func() any { n.sim.etcd.report(store, r); return nil }, func(any, bool) {})
}

func (n *node) take(v *view) {
	n.view = v
	for _, h := range v.heads {
		n.run.SetHead(h)
	}
}
