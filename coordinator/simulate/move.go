package simulate

import (
	"errors"

	"github.com/splashdam/splashdam/coordinator/internal/placement"
	"github.com/splashdam/splashdam/coordinator/internal/seal"
	"github.com/splashdam/splashdam/shared/mq"
)

// move takes one partition from one segment to the next; see seal.Round.
type move struct {
	k       *Controller
	target  seal.Target
	cluster seal.Cluster
	loads   map[mq.StoreID]placement.Node
	exclude map[mq.StoreID]bool
	members []page // that answered the probe
	answers map[mq.StoreID]Answer
	end     mq.Position
	id      mq.SegmentID // drawn and not used yet
	next    mq.Segment
	plans   int
	renewed int // how often the head was read again, as it had changed
	done    func()
}

func (m *move) head() *mq.Head { return &m.target.Head }

func (m *move) waits(why string) {
	m.k.why = why
	p := m.head().Partition
	m.k.past[p] = m.k.past[p].Failed(m.k.host.Now())
	m.done()
}

// gather asks members one question each. It ends when all have answered or failed, or a grace after enough holds.
func (m *move) gather(members []page, id mq.SegmentID, sealing bool, enough func() bool, then func()) {
	left, over, waiting := len(members), false, false
	finish := func() {
		if !over {
			over = true
			then()
		}
	}
	if left == 0 {
		finish()
		return
	}
	for _, x := range members {
		m.k.host.Ask(x.Member, id, sealing, func(a Answer, ok bool) {
			if over {
				return
			}
			if ok && a.Node.Store == x.Incarnation.Store {
				m.answers[x.Incarnation.Store] = a
			}
			if left--; left == 0 {
				finish()
			} else if !waiting && enough() {
				waiting = true
				m.k.host.After(grace, finish)
			}
		})
	}
}

// probe is step 1: nothing is changed unless enough answer and nobody serves.
func (m *move) probe() {
	h := m.head()
	var id mq.SegmentID
	var members []page
	for _, x := range m.k.members() {
		if x.live || h.Open != nil && h.Open.ReplicaIndex(x.Incarnation.Store) >= 0 {
			members = append(members, x)
		}
	}
	if h.Open != nil {
		id = h.Open.ID
	}
	m.answers = map[mq.StoreID]Answer{}
	m.gather(members, id, false, m.probed, func() {
		m.cluster.Takers = 0
		for _, x := range members {
			if a, ok := m.answers[x.Incarnation.Store]; ok {
				if x.live = x.live && a.Node == x.Incarnation; x.live {
					m.cluster.Takers++
				}
				m.members = append(m.members, x)
			}
		}
		if err := seal.Judge(h, m.target.Need, m.replicas(), &m.cluster); err != nil {
			m.waits(err.Error())
			return
		}
		m.draw(func() {
			if h.Open == nil {
				m.create()
				return
			}
			m.seal()
		})
	})
}

// draw takes an id, before anything is sealed.
func (m *move) draw(then func()) {
	m.k.host.NextID(func(id mq.SegmentID, ok bool) {
		if !ok {
			m.waits("no id")
			return
		}
		m.id = id
		then()
	})
}

// replicas are the answers of the open segment's replicas.
func (m *move) replicas() map[mq.StoreID]Answer {
	out := map[mq.StoreID]Answer{}
	if m.head().Open == nil {
		return out
	}
	for _, r := range m.head().Open.Replicas {
		if a, ok := m.answers[r.Store]; ok {
			out[r.Store] = a
		}
	}
	return out
}

func (m *move) probed() bool {
	h := m.head()
	if h.Open == nil {
		return len(m.answers) >= h.Replicas
	}
	n := 0
	for _, a := range m.replicas() {
		if a.Known {
			n++
		}
	}
	_, leader := m.answers[h.Open.Leader.Store]
	suspicion := m.target.Need.Reason == seal.Suspected || m.target.Need.Reason == seal.Gone
	return n >= h.Open.SealAnswers() && (!suspicion || leader) && (!m.target.Need.Everyone || n == len(h.Open.Replicas))
}

// seal is steps 2 and 3.
func (m *move) seal() {
	h := m.head()
	var members []page
	for _, x := range m.members {
		if h.Open.ReplicaIndex(x.Incarnation.Store) >= 0 {
			members = append(members, x)
		}
	}
	m.answers = map[mq.StoreID]Answer{}
	enough := func() bool { _, ok := m.ended(); return ok }
	m.gather(members, h.Open.ID, true, enough, func() {
		var ok bool
		if m.end, ok = m.ended(); !ok {
			err := errors.New("too few sealed")
			if f := m.target.Need.Force; f != nil {
				m.end, err = seal.ForcedEnd(h, f, m.replicas())
			}
			if err != nil {
				m.waits(err.Error())
				return
			}
		}
		m.create()
	})
}

// ended is seal.End, or what a mutation makes of it.
func (m *move) ended() (mq.Position, bool) {
	open := *m.head().Open
	if m.k.host.Mutation.OneAnswerFewer && open.Quorum < len(open.Replicas) {
		open.Quorum++
	}
	end, ok := seal.End(&open, m.replicas())
	if m.k.host.Mutation.LowestTail {
		for _, a := range m.replicas() {
			if a.Known && a.Sealed && a.Tail.Before(end) {
				end = a.Tail
			}
		}
	}
	return end, ok
}

// create is step 4, planned again without the nodes that did not make their replica.
func (m *move) create() {
	if m.plans++; m.plans > plans {
		m.waits("nobody makes it")
		return
	}
	var takers []seal.Taker
	for _, x := range m.members {
		if s := x.Incarnation.Store; x.live && !m.exclude[s] {
			n := m.loads[s]
			n.Name, n.Store, n.Zone, n.Skewed, n.Slow = x.Name, s, x.Zone, x.Skewed, x.Slow
			takers = append(takers, seal.Taker{Node: n, Incarnation: x.Incarnation})
		}
	}
	next, _, ok := seal.Plan(m.head(), m.end, m.replicas(), takers, "", m.target.Need.Force)
	if !ok {
		m.waits("no plan")
		return
	}
	make := func() {
		next.ID, m.id = m.id, 0
		m.make(next)
	}
	if m.id != 0 {
		make()
		return
	}
	m.draw(make) // it is planned again
}

func (m *move) make(next mq.Segment) {
	left, all := len(next.Replicas), true
	for _, r := range next.Replicas {
		for _, x := range m.members {
			if x.Incarnation.Store != r.Store {
				continue
			}
			m.k.host.Create(x.Member, next, m.head().Revision, func(made bool) {
				if !made {
					all = false
					m.exclude[r.Store] = true
				}
				if left--; left > 0 {
					return
				}
				if !all {
					m.create()
					return
				}
				m.next = next
				m.open()
			})
		}
	}
}

// open is step 5.
func (m *move) open() {
	head, displaced := seal.Chain(*m.head(), m.end, m.next, m.target.Need.Force)
	m.k.host.Open(head, displaced, func(opened, known bool, revision int64) {
		switch {
		case !known:
			m.reread()
		case opened:
			m.opened(revision)
		default:
			m.renew()
		}
	})
}

// renew goes on with a head that somebody changed who opened nothing.
func (m *move) renew() {
	m.k.host.Head(m.head().Partition, func(now mq.Head, ok bool) {
		h, same := seal.Renewed(m.head(), &now)
		if m.renewed++; !ok || !same || m.renewed >= openings {
			m.waits("the head changed")
			return
		}
		m.target.Head, m.plans = h, 0
		m.create()
	})
}

// reread asks what became of a transaction of unknown outcome; it is never blindly tried again.
func (m *move) reread() {
	m.k.host.Head(m.head().Partition, func(h mq.Head, ok bool) {
		if ok && h.Open != nil && h.Open.ID == m.next.ID {
			m.opened(h.Revision)
			return
		}
		m.waits("the outcome is unknown")
	})
}

func (m *move) opened(revision int64) {
	p := m.head().Partition
	m.k.past[p] = m.k.past[p].Moved(m.k.host.Now(), m.target.Need.Reason, m.head().Open, &m.next)
	m.k.moved[p] = revision
	m.done()
}
