package coordinator

import (
	"time"

	"github.com/splashdam/splashdam/coordinator/internal/placement"
	"github.com/splashdam/splashdam/coordinator/internal/seal"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// book remembers nodes beyond their leases: a node whose lease ended may still hold and answer.
type book struct {
	nodes map[mq.StoreID]page
	ended []time.Time // when leases ended, within the last second
}

type page struct {
	meta.Node
	live bool
}

// candidate is the node as placement has it.
func (p *page) candidate(l load) placement.Node {
	return placement.Node{Name: p.Name, Store: p.Store, Zone: p.Zone, Capacity: p.Capacity,
		Avoid: !p.Takes(), Skewed: p.Skewed, Slow: p.Slow, Segments: l.segments, Leads: l.leads}
}

// load is how many open segments a node holds and leads.
type load struct{ segments, leads int }

func newBook() book { return book{nodes: map[mq.StoreID]page{}} }

// update takes the live nodes, and says whether more than a third of the leases ended within a second: that looks
// like trouble with the leases, not with the nodes.
func (b *book) update(live []meta.Node, now time.Time) (storm bool) {
	recent := b.ended[:0]
	for _, t := range b.ended {
		if now.Sub(t) < time.Second {
			recent = append(recent, t)
		}
	}
	b.ended = recent
	names := make(map[mq.StoreID]meta.Node, len(live))
	for _, n := range live {
		names[n.Store] = n
	}
	ended := false
	for store, p := range b.nodes {
		if _, ok := names[store]; p.live && !ok {
			p.live, ended = false, true
			b.nodes[store] = p
			b.ended = append(b.ended, now)
		}
	}
	for store, n := range names {
		b.nodes[store] = page{n, true}
	}
	return ended && 3*len(b.ended) > len(live)+len(b.ended)
}

// forget drops nodes that are neither live nor replicas of an open segment.
func (b *book) forget(loads map[mq.StoreID]load) {
	for store, p := range b.nodes {
		if !p.live && loads[store].segments == 0 {
			delete(b.nodes, store)
		}
	}
}

func (b *book) members(loads map[mq.StoreID]load) []seal.Member {
	out := make([]seal.Member, 0, len(b.nodes))
	for store, p := range b.nodes {
		out = append(out, seal.Member{
			Node: p.candidate(loads[store]), Addr: p.Addr, Incarnation: p.Incarnation(), Live: p.live,
		})
	}
	return out
}

func (b *book) addrs() map[string]bool {
	out := map[string]bool{}
	for _, p := range b.nodes {
		out[p.Addr] = true
	}
	return out
}
