package coordinator

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/coordinator/internal/repair"
	"github.com/splashdam/splashdam/shared/mq"
)

// repairEvery is how often the controller looks for sealed segments with lost replicas.
const repairEvery = 5 * time.Second

// repairs is the loop that gives sealed segments new holders. One goroutine owns it; a reign has one.
type repairs struct {
	*Coordinator
	away map[mq.StoreID]time.Time // since when a named store is not registered
	// watched are the stores that sealed segments named when they were listed last, and those that heads named since:
	// a segment is in its partition's head before it has a key of its own. busy says that some are being copied. With
	// all of them alive and nothing busy there is no need to list.
	watched map[mq.StoreID]bool
	busy    bool
	// short says that a segment had fewer holders than it should when they were listed, and takers how many nodes there were: with
	// more it is worth another look.
	short   bool
	takers  int
	listed  time.Time
	version uint64 // of the view of which watched holds what heads name
}

// repairAll is how often sealed segments are listed although nothing seems to be missing.
const repairAll = time.Minute

func (c *Coordinator) repair(ctx context.Context) {
	r := &repairs{Coordinator: c, away: map[mq.StoreID]time.Time{}, watched: map[mq.StoreID]bool{}}
	for sleep(ctx, repairEvery) {
		if err := r.look(ctx, time.Now()); err != nil && ctx.Err() == nil {
			c.log.Warn("looking for segments to repair", "err", err)
		}
	}
}

// look lists the sealed segments if that may be of use, and makes one change to each that needs one.
func (r *repairs) look(ctx context.Context, now time.Time) error {
	alive := r.alive()
	if version := r.view.Version(); version != r.version {
		r.version = version
		r.watchHeads(len(alive))
	}
	for store := range r.watched {
		if _, ok := alive[store]; ok {
			delete(r.away, store)
		} else if r.away[store].IsZero() {
			r.away[store] = now
		}
	}
	more := r.short && len(alive) > r.takers
	if len(r.away) == 0 && !r.busy && !more && now.Sub(r.listed) < repairAll {
		return nil
	}
	c := r.cluster(alive, now)
	var all []mq.Segment
	want := map[mq.PartitionID]int{}
	for _, h := range r.view.AllHeads() {
		want[h.Partition] = h.Replicas
		if h.Last != nil {
			all = append(all, *h.Last)
		}
	}
	if err := r.store.SealedSegments(ctx, func(s mq.Segment) bool {
		all = append(all, s)
		return true
	}); err != nil {
		return err
	}
	r.listed, r.busy, r.short, r.takers = now, false, false, len(alive)
	clear(r.watched)
	lacking := 0
	for i := range all {
		s := &all[i]
		r.short = r.short || len(s.Replicas) < want[s.Partition]
		for _, x := range s.Adding {
			r.watched[x.Store] = true
		}
		for _, x := range s.Replicas {
			r.watched[x.Store] = true
			if n, ok := c.Alive[x.Store]; ok {
				n.Load++
				c.Alive[x.Store] = n
			}
			if c.Lost[x.Store] {
				lacking++
			}
		}
	}
	r.figures.lacking.Set(float64(lacking))
	for store := range r.away {
		if !r.watched[store] {
			delete(r.away, store)
		}
	}
	for i := range all {
		if err := r.change(ctx, &all[i], want[all[i].Partition], c); err != nil {
			return err
		}
	}
	return nil
}

// watchHeads notes which stores are named in the heads, and whether a segment could have more holders.
func (r *repairs) watchHeads(takers int) {
	for _, h := range r.view.AllHeads() {
		if h.Last != nil {
			r.busy = r.busy || len(h.Last.Replicas) < min(h.Replicas, takers)
			for _, x := range h.Last.Replicas {
				r.watched[x.Store] = true
			}
		}
	}
}

// alive are the registered nodes that may take segments.
func (r *repairs) alive() map[mq.StoreID]repair.Node {
	out := map[mq.StoreID]repair.Node{}
	for _, n := range r.view.Nodes() {
		if !n.Draining && !n.Full {
			out[n.Store] = repair.Node{Replica: mq.Replica{Store: n.Store, Node: n.Name}, Zone: n.Zone}
		}
	}
	return out
}

func (r *repairs) cluster(alive map[mq.StoreID]repair.Node, now time.Time) *repair.Cluster {
	c := &repair.Cluster{Alive: alive, Lost: map[mq.StoreID]bool{}, Leaving: map[mq.StoreID]bool{}, Away: map[mq.StoreID]bool{}, Copied: map[mq.StoreID]map[mq.SegmentID]bool{}}
	for store, since := range r.away {
		c.Away[store] = true
		if now.Sub(since) >= r.cfg.RepairAfter {
			c.Lost[store] = true
		}
	}
	for _, n := range r.view.Nodes() {
		if n.Draining {
			c.Lost[n.Store], c.Leaving[n.Store] = true, true
		} else if n.Full {
			delete(c.Lost, n.Store)
			delete(c.Away, n.Store) // it takes nothing new and keeps what it has
		}
	}
	for _, rep := range r.view.Reports() {
		for _, id := range rep.Copied {
			if c.Copied[rep.Store] == nil {
				c.Copied[rep.Store] = map[mq.SegmentID]bool{}
			}
			c.Copied[rep.Store][id] = true
		}
	}
	return c
}

// change carries out the next change of one segment, if it needs any, on what etcd has at that moment.
func (r *repairs) change(ctx context.Context, s *mq.Segment, want int, c *repair.Cluster) error {
	r.busy = r.busy || len(s.Adding) > 0
	if _, _, changed := repair.Next(s, want, c); !changed {
		return nil
	}
	r.busy = true
	return r.store.ChangeReplicas(ctx, s.Partition, s.ID, s.Number, func(now *mq.Segment) bool {
		replicas, adding, changed := repair.Next(now, want, c)
		if !changed {
			return false
		}
		for _, a := range adding {
			if !now.Holds(a.Store) {
				n := c.Alive[a.Store]
				n.Load++
				c.Alive[a.Store] = n
			}
		}
		r.log.Info("changing who holds a sealed segment", "segment", now.ID, "partition", now.Partition,
			"from", now.Replicas, "to", replicas, "copying", adding)
		now.Replicas, now.Adding = replicas, adding
		return true
	})
}
