package seal

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/splashdam/splashdam/coordinator/internal/placement"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// create is step 4: it plans every move that has no segment yet and has the chosen nodes make it. It returns
// how many must be planned again, without the nodes that failed. What was made in vain is left to R5.
func (r *Round) create(ctx context.Context, moves []*move) (again int) {
	planned := r.plan(moves)
	if len(planned) == 0 {
		return 0
	}
	first, err := r.idsFor(ctx, uint64(len(planned)))
	if err != nil {
		for _, m := range planned {
			m.wait(err)
		}
		return 0
	}
	work := map[mq.StoreID][]New{}
	for i, m := range planned {
		m.next.ID = mq.SegmentID(first + uint64(i))
		for _, x := range m.next.Replicas {
			work[x.Store] = append(work[x.Store], New{m.next, m.Target.Head.Revision})
		}
	}
	var members []Member
	for _, m := range r.Members {
		if len(work[m.Store]) > 0 {
			members = append(members, m)
		}
	}
	got, failed := gather(ctx, members, r.Calls.wait(createDeadline), 0,
		func(ctx context.Context, m Member) (created, error) {
			c, err := r.Calls.Create(ctx, m.Addr, r.ID, work[m.Store])
			if err == nil && c.node != m.Incarnation {
				err = fmt.Errorf("it is %s now, not %s", c.node, m.Incarnation)
			}
			return c, err
		},
		func(got map[mq.StoreID]created) bool { return len(got) == len(members) })
	for store, err := range failed {
		r.Log.Warn("a node did not create", "store", store, "err", err)
	}
	for _, m := range planned {
		if !r.made(m, got) {
			again++
		}
	}
	return again
}

// plan chooses nodes for the moves that have none, and counts them in, so that the next choice sees them.
func (r *Round) plan(moves []*move) (planned []*move) {
	for _, m := range moves {
		if m.done || m.next.ID != 0 {
			continue
		}
		next, chosen, at, ok := r.planOne(m, Blamed(&m.Target.Head, &r.Cluster))
		if !ok { // better with them than not at all
			next, chosen, at, ok = r.planOne(m, nil)
		}
		if !ok {
			m.wait(fmt.Errorf("no %d nodes can take the next segment of %s, its leader among those that answered its end",
				m.Target.Head.Quorum, m.Target.Head.Partition))
			continue
		}
		m.next = next
		for k, i := range chosen {
			r.Members[at[i]].Segments++
			if k == 0 {
				r.Members[at[i]].Leads++
			}
		}
		planned = append(planned, m)
	}
	return planned
}

// planOne plans a move without some nodes; at are the members that chosen counts in.
func (r *Round) planOne(m *move, without []mq.StoreID) (next mq.Segment, chosen placement.Choice, at []int, ok bool) {
	var takers []Taker
	for i, x := range r.Members {
		if x.Live && !m.exclude[x.Store] && !slices.Contains(without, x.Store) {
			takers, at = append(takers, Taker{x.Node, x.Incarnation}), append(at, i)
		}
	}
	next, chosen, ok = Plan(&m.Target.Head, m.end, m.answers, takers, r.Cluster.Prefer[m.Target.Head.Partition], m.Target.Need.Force, without...)
	return next, chosen, at, ok
}

// made says whether every chosen node made the segment; otherwise the move is to be planned again.
func (r *Round) made(m *move, got map[mq.StoreID]created) bool {
	ok := true
	for _, x := range m.next.Replicas {
		c, answered := got[x.Store]
		if answered && c.made[m.next.ID] {
			continue
		}
		ok = false
		m.exclude[x.Store] = true
		if reason := c.refused[m.next.ID]; reason != "" {
			r.Log.Warn("a node refused a segment", "node", x.Node, "segment", m.next.ID, "reason", reason)
		}
	}
	if !ok {
		m.next.ID = 0
	}
	return ok
}

// open is step 5: as many openings in one transaction as fit, one by one where that fails. The transactions of a round are
// about different partitions, and under way together: etcd writes down with one sync what comes in together.
func (r *Round) open(ctx context.Context, moves []*move) {
	var ready []*move
	for _, m := range moves {
		if !m.done && m.next.ID != 0 {
			ready = append(ready, m)
		}
	}
	var beside sync.WaitGroup
	for some := range slices.Chunk(ready, meta.MaxOpenings) {
		beside.Go(func() { r.openSome(ctx, some) })
	}
	beside.Wait()
}

func (r *Round) openSome(ctx context.Context, moves []*move) {
	openings := make([]meta.Opening, len(moves))
	for i, m := range moves {
		openings[i].Head, openings[i].Displaced = Chain(m.Target.Head, m.end, m.next, m.Target.Need.Force)
	}
	ok, revision, err := r.Chains.Open(ctx, openings)
	switch {
	case err != nil:
		// The outcome is unknown: what the keys say now is what counts, and a later round does the rest.
		r.Log.Warn("the outcome of an opening is unknown; reading the keys again", "partitions", len(moves), "err", err)
		for _, m := range moves {
			r.reread(ctx, m, err)
		}
	case ok:
		for _, m := range moves {
			m.opened(revision)
		}
	case len(moves) > 1:
		for _, m := range moves {
			r.openSome(ctx, []*move{m})
		}
	default:
		moves[0].Result, moves[0].done = Changed, true
	}
}

// renew takes up the moves whose heads were changed by somebody who opened nothing (see Renewed), and returns how many
// there are. To begin with a probe again would cost a partition whose leader is silent a second.
func (r *Round) renew(ctx context.Context, moves []*move) (again int) {
	for _, m := range moves {
		if m.Result != Changed {
			continue
		}
		now, err := r.Chains.Head(ctx, m.Target.Head.Partition)
		if err != nil {
			continue
		}
		if h, ok := Renewed(&m.Target.Head, &now); ok {
			m.Target.Head, m.next, m.Result, m.done = h, mq.Segment{}, Waiting, false
			again++
		}
	}
	return again
}

func (m *move) opened(revision int64) {
	m.Result, m.Segment, m.Revision, m.done = Opened, m.next, revision, true
}

func (r *Round) reread(ctx context.Context, m *move, cause error) {
	h, err := r.Chains.Head(ctx, m.Target.Head.Partition)
	switch {
	case err != nil:
		m.wait(cause)
	case h.Open != nil && h.Open.ID == m.next.ID:
		m.opened(h.Revision)
	case h.Revision != m.Target.Head.Revision:
		m.Result, m.done = Changed, true
	default:
		m.wait(cause)
	}
}
