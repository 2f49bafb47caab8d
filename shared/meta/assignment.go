package meta

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/splashdam/splashdam/shared/mq"
)

// Assignment says who owns each partition of a group, under /assignments/<group id>. The leading coordinator writes
// it; while there is none the last one stands.
type Assignment struct {
	Group mq.GroupID `json:"group"`
	Topic mq.TopicID `json:"topic"`
	Name  string     `json:"name"` // the group's
	// Generation rises with each change.
	Generation uint64 `json:"generation"`
	Partitions uint32 `json:"partitions"`
	// Members are by name. One without partitions stands by.
	Members []AssignedMember `json:"members"`
	// Revision is the key's ModRevision when this value was read; not stored.
	Revision int64 `json:"-"`

	owners []int32 // index into Members by partition, -1 for nobody; made when it is read
}

// AssignedMember is one member's part of an assignment.
type AssignedMember struct {
	Name string `json:"name"`
	// Since is the generation that changed this member's partitions last.
	Since      uint64   `json:"since"`
	Partitions []uint32 `json:"partitions,omitempty"` // ascending
}

// Owner is who owns a partition, "" for nobody.
func (a *Assignment) Owner(partition uint32) string {
	if int64(partition) >= int64(len(a.owners)) || a.owners[partition] < 0 {
		return ""
	}
	return a.Members[a.owners[partition]].Name
}

// Of is a member's part; false if the assignment does not know it.
func (a *Assignment) Of(member string) (AssignedMember, bool) {
	i, ok := slices.BinarySearchFunc(a.Members, member, func(m AssignedMember, name string) int { return strings.Compare(m.Name, name) })
	if !ok {
		return AssignedMember{}, false
	}
	return a.Members[i], true
}

// Owners are the owners by partition, "" for nobody; n is how many partitions there are.
func (a *Assignment) Owners(n uint32) []string {
	out := make([]string, n)
	for p := range out {
		out[p] = a.Owner(uint32(p))
	}
	return out
}

// index makes the assignment ready to be asked, or says what is wrong with it.
func (a *Assignment) index() error {
	if a.Partitions > mq.MaxPartitions {
		return fmt.Errorf("it has %d partitions", a.Partitions)
	}
	a.owners = make([]int32, a.Partitions)
	for p := range a.owners {
		a.owners[p] = -1
	}
	for i, m := range a.Members {
		if i > 0 && a.Members[i-1].Name >= m.Name {
			return fmt.Errorf("its members are not in order at %q", m.Name)
		}
		for _, p := range m.Partitions {
			if p >= a.Partitions || a.owners[p] >= 0 {
				return fmt.Errorf("partition %d of member %q is none or has two owners", p, m.Name)
			}
			a.owners[p] = int32(i)
		}
	}
	return nil
}

// Next is the assignment after a, with these members (by name, distinct) and the owners of all partitions; changed
// is false if it is the same.
func (a *Assignment) Next(members, owners []string) (next Assignment, changed bool) {
	next = Assignment{Group: a.Group, Topic: a.Topic, Name: a.Name, Generation: a.Generation + 1, Partitions: uint32(len(owners)), Revision: a.Revision}
	next.Members = make([]AssignedMember, len(members))
	at := make(map[string]int, len(members))
	for i, name := range members {
		next.Members[i] = AssignedMember{Name: name, Since: next.Generation}
		at[name] = i
	}
	for p, owner := range owners {
		if i, ok := at[owner]; ok {
			next.Members[i].Partitions = append(next.Members[i].Partitions, uint32(p))
		}
	}
	changed = next.Partitions != a.Partitions || len(next.Members) != len(a.Members)
	for i := range next.Members {
		m := &next.Members[i]
		if old, ok := a.Of(m.Name); ok && slices.Equal(old.Partitions, m.Partitions) {
			m.Since = old.Since
		} else {
			changed = true
		}
	}
	return next, changed
}

// assigned is what a view holds of a group's assignment.
type assigned struct {
	Assignment
	changed chan struct{} // closed at the next change; nil while nobody asked
}

func (d *data) assignmentKind() *kind {
	change := func(group mq.GroupID, a Assignment) {
		old := d.assignments[group]
		if old != nil && old.changed != nil {
			close(old.changed)
		}
		if a.Revision == 0 {
			delete(d.assignments, group)
		} else {
			d.assignments[group] = &assigned{Assignment: a}
		}
	}
	return &kind{
		prefix: prefixAssignments,
		set: func(rest string, value []byte, revision int64) error {
			var a Assignment
			if err := json.Unmarshal(value, &a); err != nil {
				return err
			}
			if assignmentKey(a.Group) != prefixAssignments+rest {
				return fmt.Errorf("it is of group %d", a.Group)
			}
			if err := a.index(); err != nil {
				return err
			}
			a.Revision = revision
			change(a.Group, a)
			return nil
		},
		unset: func(rest string) {
			if id, err := strconv.ParseUint(rest, 10, 64); err == nil {
				change(mq.GroupID(id), Assignment{})
			}
		},
	}
}

// Assignment is a group's assignment as the view has it; Generation 0 says that there is none. changed is closed when
// there is another one.
func (v *View) Assignment(group mq.GroupID) (a Assignment, changed <-chan struct{}) {
	v.mu.RLock()
	if x := v.data.assignments[group]; x != nil && x.changed != nil {
		defer v.mu.RUnlock()
		return x.Assignment, x.changed
	}
	v.mu.RUnlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.data.assignments[group]
	if x == nil {
		x = &assigned{} // nobody's until there is one: it holds the channel
		v.data.assignments[group] = x
	}
	if x.changed == nil {
		x.changed = make(chan struct{})
	}
	return x.Assignment, x.changed
}

// Owner is who owns a partition of a group and since which generation that is known here; 0 without an assignment.
func (v *View) Owner(group mq.GroupID, partition uint32) (owner string, generation uint64) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	x := v.data.assignments[group]
	if x == nil {
		return "", 0
	}
	return x.Owner(partition), x.Generation
}

// Orphans are the assignments whose groups this view does not have, in no order. It may be behind on either: only a
// linearizable read says that a group is gone.
func (v *View) Orphans() []Assignment {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []Assignment
	for id, x := range v.data.assignments {
		ref, ok := v.data.groupRefs[id]
		if x.Revision != 0 && (!ok || v.data.groups[ref].Deleted) {
			out = append(out, x.Assignment)
		}
	}
	return out
}
