package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// owned is what a member may receive from, by the newest assignment that this gateway has seen.
type owned struct {
	partitions []uint32 // ascending; never nil, so that it does not mean all
	generation uint64   // of the assignment, 0 for none
	since      uint64   // the generation that changed the partitions last
	known      bool     // the assignment names the member
	changed    <-chan struct{}
}

// partitionsOf says what a member of a group owns now; changed is closed when there is a newer assignment. For groups
// of mode push the member is the gateway, by its name.
func (g *Gateway) partitionsOf(group mq.GroupID, member string) owned {
	a, changed := g.view.Assignment(group)
	m, known := a.Of(member)
	o := owned{partitions: m.Partitions, generation: a.Generation, since: m.Since, known: known, changed: changed}
	if o.partitions == nil {
		o.partitions = []uint32{}
	}
	return o
}

// memberOf finds a living member: in this gateway's view, and if it is not there, in etcd.
func (g *Gateway) memberOf(ctx context.Context, group *meta.Group, name string) (meta.Member, error) {
	if m, ok := g.view.Member(group.ID, name); ok {
		return m, nil
	}
	m, err := g.store.GetMember(ctx, group.ID, name)
	if a, _ := g.view.Assignment(group.ID); mqerr.Is(err, mqerr.NotMember) {
		if _, was := a.Of(name); was {
			err = mqerr.New(mqerr.MemberExpired, "%q was a member of group %q", name, group.Name)
		}
	}
	return m, err
}

// needsMembers checks that a group is one that consumers join.
func needsMembers(group *meta.Group) error {
	switch group.Settings.Mode {
	case mq.ModeAssigned:
		return nil
	case mq.ModePush:
		return mqerr.New(mqerr.NotMember, "group %q is a webhook's: its members are the gateways", group.Name)
	}
	return mqerr.New(mqerr.NotAssigned, "group %q is shared; its mode can be made assigned", group.Name)
}

// membership is a receive's part in a group whose partitions have owners; the zero value is for shared groups. In
// groups of mode push the gateway sets name and wanted itself and needs no sign of life.
type membership struct {
	name   string
	wanted []uint32 // of the partitions those that the caller asks for, nil for all
	owned  owned    // as it was followed last
	leave  func()   // ends the sign of life that the call is; nil for none
}

// admit finds out in whose name a receive is, and renews it.
func (r *receive) admit(ctx context.Context) error {
	mode := r.group.Settings.Mode
	switch {
	case !mq.ByMembers(mode) && r.member.name == "":
		return nil
	case mode == mq.ModeAssigned && r.member.name == "":
		return mqerr.New(mqerr.NotMember, "group %q is assigned: join it, and receive with member", r.group.Name)
	}
	if err := needsMembers(&r.group); err != nil {
		return err
	}
	m, err := r.g.memberOf(ctx, &r.group, r.member.name)
	if err != nil {
		return err
	}
	r.member.leave = r.g.renewals.hear(m)
	r.member.wanted = r.only
	return nil
}

// follow takes up the newest assignment: the receive asks for what is the member's own.
func (r *receive) follow() error {
	if r.member.name == "" {
		return nil
	}
	m := &r.member
	before := m.owned.known
	m.owned = r.g.partitionsOf(r.group.ID, m.name)
	if before && !m.owned.known {
		return mqerr.New(mqerr.MemberExpired, "%q is no member of group %q any more", m.name, r.group.Name)
	}
	r.only = m.owned.partitions
	if m.wanted != nil {
		r.only = []uint32{}
		for _, p := range m.owned.partitions {
			if slices.Contains(m.wanted, p) {
				r.only = append(r.only, p)
			}
		}
	}
	return nil
}

// release ends the sign of life.
func (r *receive) release() {
	if r.member.leave != nil {
		r.member.leave()
	}
}

// assignedWait bounds how long a join waits until its assignment is made: the coordinators take a few milliseconds.
const assignedWait = time.Second

// awaitAssigned waits until the partitions of a member are others than at the generation after (0: until the assignment
// names it), or d is over.
func (g *Gateway) awaitAssigned(ctx context.Context, group mq.GroupID, member string, after uint64, d time.Duration) owned {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		o := g.partitionsOf(group, member)
		if o.known && o.since > after || !o.known && after > 0 && o.generation > after {
			return o
		}
		select {
		case <-o.changed:
		case <-timer.C:
			return o
		case <-g.draining:
			return o
		case <-ctx.Done():
			return o
		}
	}
}
