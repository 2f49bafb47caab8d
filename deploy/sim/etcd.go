package sim

import (
	"maps"
	"slices"

	"github.com/splashdam/splashdam/coordinator/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// etcd is the register as its users see it: transactions that compare a revision and may have an unknown outcome,
// leases that end late or all at once, watches that lag but do not go back.
type etcd struct {
	s    *scheduler
	net  *network
	proc *process // for cuts

	revision int64
	heads    []mq.Head
	sealed   map[mq.PartitionID][]mq.Segment // those that have a key of their own, oldest first
	nextID   mq.SegmentID
	nodes    map[string]lease
	reports  map[mq.StoreID]report
	forces   map[mq.PartitionID]force
	reign    int   // of which controller the lease is, -1 for none
	reignEnd int64 // when it ends
	watchers []*watcher

	away    int64 // until then it does not answer
	late    int64 // until then no lease ends
	unknown int64 // until then many outcomes are unknown
	onOpen  func(old, next mq.Head)
	onLost  func(h mq.Head, seg *mq.Segment, held mq.Position, by string)
}

type lease struct {
	member  simulate.Member
	expires int64
}

type report struct {
	flagged, asked, opening, copied []mq.SegmentID
	store                           mq.StoreID
	expires                         int64
}

// force is an operator's wish about an open segment; see meta.Force.
type force struct {
	segment mq.SegmentID
	simulate.Force
}

// view is one state of etcd.
type view struct {
	revision int64
	heads    []mq.Head
	forces   map[mq.PartitionID]force
	nodes    []simulate.Member
	reports  []report
}

type watcher struct {
	p    *process
	seen int64 // revision of the newest view that is on its way
	next int64 // when it arrives
	lag  int64 // until then views come late
	take func(v *view)
}

const (
	leaseTTL    = 2 * second
	etcdTimeout = 2 * second
)

func (e *etcd) watch(p *process, take func(v *view)) *watcher {
	w := &watcher{p: p, take: take, seen: -1}
	e.watchers = append(e.watchers, w)
	return w
}

func (e *etcd) snapshot() *view {
	v := &view{revision: e.revision, heads: slices.Clone(e.heads), forces: maps.Clone(e.forces)}
	for _, name := range nodeNames {
		if l, ok := e.nodes[name]; ok {
			v.nodes = append(v.nodes, l.member)
		}
	}
	for _, store := range sortedStores(e.reports) {
		v.reports = append(v.reports, e.reports[store])
	}
	return v
}

func sortedStores(m map[mq.StoreID]report) []mq.StoreID {
	out := make([]mq.StoreID, 0, len(m))
	for s := range m {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// changed tells the watchers, each after its own lag.
func (e *etcd) changed() {
	e.revision++
	e.notify()
}

func (e *etcd) notify() {
	var v *view
	for _, w := range e.watchers {
		if w.seen == e.revision || !w.p.up || !e.net.open(e.proc, w.p) || e.away > e.s.now {
			continue
		}
		if v == nil {
			v = e.snapshot()
		}
		at := e.s.now + e.net.delay(e.proc, w.p)
		if w.lag > e.s.now {
			at = w.lag
		}
		w.next = max(w.next+1, at)
		w.seen = e.revision
		e.s.in(w.next-e.s.now, w.p, func() { w.take(v) })
	}
}

// do applies a request and brings the answer back; ok is false if the outcome is unknown.
func (e *etcd) do(from *process, apply func() any, done func(res any, ok bool)) {
	e.net.call(from, e.proc, etcdTimeout, func(reply func(any)) {
		if e.away > e.s.now {
			return
		}
		trouble := e.unknown > e.s.now
		if trouble && e.s.chance(15) {
			return // lost before
		}
		res := apply()
		if trouble && e.s.chance(25) {
			return // lost after
		}
		reply(res)
	}, done)
}

func (e *etcd) find(p mq.PartitionID) *mq.Head {
	for i := range e.heads {
		if e.heads[i].Partition == p {
			return &e.heads[i]
		}
	}
	return nil
}

// openSegment is the transaction of an opening: compare the head's revision, write head and displaced segment.
func (e *etcd) openSegment(h mq.Head, displaced *mq.Segment) (opened bool, revision int64) {
	have := e.find(h.Partition)
	if have.Revision != h.Revision {
		return false, 0
	}
	old := *have
	if displaced != nil {
		e.sealed[h.Partition] = append(e.sealed[h.Partition], *displaced)
	}
	h.Revision = e.revision + 1
	*have = h
	e.onOpen(old, h)
	e.changed()
	return true, h.Revision
}

// recordLost is meta.RecordLost.
func (e *etcd) recordLost(h mq.Head, seg *mq.Segment, held mq.Position, by string) {
	have := e.find(h.Partition)
	if have.Revision != h.Revision {
		return
	}
	next, ok := h.Lose(mq.Hole{From: held, To: seg.DataEnd(), Segment: seg.ID, By: by})
	if !ok {
		return
	}
	if h.Last == nil || h.Last.ID != seg.ID {
		list := e.sealed[h.Partition]
		i := slices.IndexFunc(list, func(s mq.Segment) bool { return s.ID == seg.ID })
		if i < 0 || !slices.Equal(list[i].Replicas, seg.Replicas) || !slices.Equal(list[i].Adding, seg.Adding) {
			return
		}
		list = slices.Clone(list)
		list[i].Held = &held
		e.sealed[h.Partition] = list
	}
	next.Revision = e.revision + 1
	*have = next
	e.onLost(next, seg, held, by)
	e.changed()
}

// changeReplicas is meta.ChangeReplicas, of a partition's last sealed segment.
func (e *etcd) changeReplicas(p mq.PartitionID, id mq.SegmentID, change func(*mq.Segment) bool) {
	have := e.find(p)
	if have.Last == nil || have.Last.ID != id {
		return
	}
	last := *have.Last
	if !change(&last) {
		return
	}
	have.Last, have.Revision = &last, e.revision+1
	e.changed()
}

// chain is a partition's sealed segments, oldest first, the newest included.
func (e *etcd) chain(p mq.PartitionID) []mq.Segment {
	out := slices.Clone(e.sealed[p])
	if h := e.find(p); h.Last != nil {
		out = append(out, *h.Last)
	}
	return out
}

// keep renews or makes a node's registration.
func (e *etcd) keep(m simulate.Member) {
	l, ok := e.nodes[m.Name]
	if ok && l.member.Incarnation.Store == m.Incarnation.Store && l.member.Incarnation.Boot > m.Incarnation.Boot {
		return // from an earlier run
	}
	e.nodes[m.Name] = lease{m, e.s.now + leaseTTL}
	if !ok || l.member != m {
		e.changed()
	}
}

func (e *etcd) report(store mq.StoreID, r report) {
	r.store, r.expires = store, e.s.now+leaseTTL
	old := e.reports[store]
	e.reports[store] = r
	if !slices.Equal(old.asked, r.asked) || !slices.Equal(old.opening, r.opening) || !slices.Equal(old.copied, r.copied) || !slices.Equal(old.flagged, r.flagged) {
		e.changed()
	}
}

// campaign takes or renews the controller's lease, and says whose it is.
func (e *etcd) campaign(who int) int {
	if e.reign == who || e.reignEnd <= e.s.now {
		e.reign, e.reignEnd = who, e.s.now+leaseTTL
	}
	return e.reign
}

// tick ends leases that are over and lets watchers catch up that were cut off.
func (e *etcd) tick() {
	e.s.in(200*millisecond, nil, e.tick)
	if e.away > e.s.now || e.late > e.s.now {
		return
	}
	e.expire(e.s.now)
	e.notify()
}

// expire ends the leases that would end by a time.
func (e *etcd) expire(by int64) {
	ended := false
	for name, l := range e.nodes {
		if l.expires <= by {
			delete(e.nodes, name)
			ended = true
		}
	}
	for store, r := range e.reports {
		if r.expires <= by {
			delete(e.reports, store)
			ended = true
		}
	}
	if ended {
		e.changed()
	}
}
