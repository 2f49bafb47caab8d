package coordinator

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/splashdam/splashdam/coordinator/internal/assign"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// assignRest is the least time between two looks at who owns what, so that many who join together cost few
	// assignments.
	assignRest = 20 * time.Millisecond
	// orphansEvery is how often assignments of groups that are gone are looked for.
	orphansEvery = time.Minute
)

// assigner is the loop that gives the partitions of groups with members to the members that live. It is woken by
// members that come and go; nothing that it writes wakes it into writing again, because an assignment is its own
// answer (see package assign). One goroutine owns it; a reign has one.
type assigner struct {
	*Coordinator
	seen    map[mq.GroupID]basis
	back    reunions
	knocker *knocker
}

// basis is what an assignment was made from; while it is the same there is nothing to do.
type basis struct {
	members    uint64 // version of the members
	gateways   string // their names, for groups whose members are the gateways
	partitions uint32
	assignment int64 // revision of the key
}

func (c *Coordinator) assign(ctx context.Context) {
	a := &assigner{Coordinator: c, seen: map[mq.GroupID]basis{}, back: reunions{}, knocker: newKnocker(c.cfg.Dial)}
	knocked := make(chan struct{}, 1)
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() {
		a.knocker.run(ctx, c.view, func() {
			select {
			case knocked <- struct{}{}:
			default:
			}
		})
	})
	changes, cancel := c.view.Subscribe()
	defer cancel()
	tidied := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		a.look(ctx)
		if time.Since(tidied) >= orphansEvery {
			a.tidy(ctx)
			tidied = time.Now()
		}
		if !sleep(ctx, assignRest) {
			return
		}
		timer.Reset(idle)
		select {
		case <-ctx.Done():
			return
		case <-changes:
		case <-knocked:
		case <-timer.C:
		}
	}
}

// look makes a new assignment for each group that needs one.
func (a *assigner) look(ctx context.Context) {
	groups := a.view.MemberGroups()
	gateways := a.gateways(groups)
	names := joined(gateways)
	for i := range groups {
		g := &groups[i]
		t, ok := a.view.TopicByID(g.Topic)
		if !ok || t.Deleted {
			delete(a.seen, g.ID)
			delete(a.back, g.ID)
			continue
		}
		have, _ := a.view.Assignment(g.ID)
		now := basis{partitions: t.Settings.Partitions, assignment: have.Revision}
		if g.Settings.Mode == mq.ModePush {
			now.gateways = names
		} else {
			now.members = a.view.MembersVersion(g.ID)
		}
		if a.seen[g.ID] == now {
			continue
		}
		members := gateways
		if g.Settings.Mode != mq.ModePush {
			all := a.view.Members(g.ID)
			if a.back.waits(&have, all, time.Now()) {
				continue // looked at again when somebody comes, or at the next idle look
			}
			members = membersOf(all)
		}
		if err := a.decide(ctx, g, have, members, t.Settings.Partitions); err != nil {
			if ctx.Err() == nil {
				a.log.Warn("assigning partitions; it will be tried again", "group", g.Name, "topic", t.Name, "err", err)
			}
			continue
		}
		a.seen[g.ID] = now
	}
}

// decide writes the assignment of one group if it is another one than before. A group without members keeps what it
// has: silence unassigns nobody.
func (a *assigner) decide(ctx context.Context, g *meta.Group, have meta.Assignment, members []assign.Member, partitions uint32) error {
	if len(members) == 0 {
		return nil
	}
	before := have.Owners(partitions)
	owners := assign.Owners(assign.Facts{Members: members, Owners: before, Zones: a.zones(g.Topic, partitions)})
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.ID
	}
	have.Group, have.Topic, have.Name = g.ID, g.Topic, g.Name
	next, changed := have.Next(names, owners)
	if !changed {
		return nil
	}
	ok, err := a.store.PutAssignment(ctx, next)
	if err != nil {
		return err
	}
	if !ok {
		return nil // somebody else wrote it: the view will show that, and this looks again
	}
	moved := assign.Moved(before, owners, members)
	a.figures.assignments.Inc()
	a.figures.reassigned.Add(float64(moved))
	a.log.Info("partitions assigned", "group", g.Name, "topic", uint64(g.Topic), "generation", next.Generation,
		"members", len(members), "partitions", partitions, "moved", moved)
	return nil
}

func membersOf(list []meta.Member) []assign.Member {
	out := make([]assign.Member, len(list))
	for i, m := range list {
		out[i] = assign.Member{ID: m.Name, Zone: m.Zone}
	}
	return out
}

// gateways are the members of groups that push, if there are such groups.
func (a *assigner) gateways(groups []meta.Group) (out []assign.Member) {
	for i := range groups {
		if groups[i].Settings.Mode == mq.ModePush {
			for _, g := range a.knocker.living(a.view.Gateways()) {
				out = append(out, assign.Member{ID: g.Name})
			}
			break
		}
	}
	return out
}

// joined is the members' names as one text; names have no blanks.
func joined(members []assign.Member) string {
	var b strings.Builder
	for _, m := range members {
		b.WriteString(m.ID)
		b.WriteByte(' ')
	}
	return b.String()
}

// zones are the zones of the leaders of a topic's partitions.
func (a *assigner) zones(topic mq.TopicID, partitions uint32) []string {
	out := make([]string, partitions)
	zones := map[mq.StoreID]string{}
	for _, n := range a.view.Nodes() {
		zones[n.Store] = n.Zone
	}
	for p := range out {
		if h, ok := a.view.Head(mq.PartitionID{Topic: topic, Number: uint32(p)}); ok && h.Open != nil {
			out[p] = zones[h.Open.Leader.Store]
		}
	}
	return out
}

// tidy forgets the assignments of groups that are gone, and what is remembered of them.
func (a *assigner) tidy(ctx context.Context) {
	for _, o := range a.view.Orphans() {
		g, err := a.store.GetGroup(ctx, o.Topic, o.Name)
		if err == nil && g.ID == o.Group || err != nil && !mqerr.Is(err, mqerr.GroupNotFound) {
			continue
		}
		if err := a.store.ForgetAssignment(ctx, o.Group); err != nil && ctx.Err() == nil {
			a.log.Warn("removing the assignment of a group that is gone; it will be tried again", "group", o.Name, "err", err)
		}
	}
	for id := range a.seen {
		if g, ok := a.view.GroupByID(id); !ok || g.Deleted {
			delete(a.seen, id)
			delete(a.back, id)
		}
	}
}
