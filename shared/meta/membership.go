package meta

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/splashdam/splashdam/shared/mq"
)

// membership is what a view holds of a group's members.
type membership struct {
	byName map[string]Member
	// version rises when somebody came, went or changed its zone: what an assignment follows from.
	version uint64
}

// WithMembers makes the view hold the members of assigned groups, which the controller and gateways need.
func WithMembers(v *View) { v.kinds = append(v.kinds, withMods(v.data.memberKind())) }

func (d *data) memberKind() *kind {
	return &kind{
		prefix: prefixMembers,
		set: func(rest string, value []byte, revision int64) error {
			var m Member
			if err := json.Unmarshal(value, &m); err != nil {
				return err
			}
			if memberKey(m.Group, m.Name) != prefixMembers+rest {
				return fmt.Errorf("it is of member %q of group %d", m.Name, m.Group)
			}
			m.Revision = revision
			all := d.members[m.Group]
			if all == nil {
				all = &membership{byName: map[string]Member{}}
				d.members[m.Group] = all
			}
			if old, ok := all.byName[m.Name]; !ok || old.Zone != m.Zone {
				d.memberVersion++
				all.version = d.memberVersion
			}
			all.byName[m.Name] = m
			return nil
		},
		unset: func(rest string) {
			group, name, _ := strings.Cut(rest, "/")
			id, err := strconv.ParseUint(group, 10, 64)
			all := d.members[mq.GroupID(id)]
			if err != nil || all == nil {
				return
			}
			delete(all.byName, name)
			d.memberVersion++
			all.version = d.memberVersion
			if len(all.byName) == 0 {
				delete(d.members, mq.GroupID(id))
			}
		},
	}
}

// Member finds a living member of an assigned group; only with WithMembers.
func (v *View) Member(group mq.GroupID, name string) (Member, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	all := v.data.members[group]
	if all == nil {
		return Member{}, false
	}
	m, ok := all.byName[name]
	return m, ok
}

// Members are the living members of an assigned group, by name; only with WithMembers.
func (v *View) Members(group mq.GroupID) []Member {
	out := read(v, func(d *data) []Member {
		if all := d.members[group]; all != nil {
			return values(all.byName)
		}
		return nil
	})
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// MembersVersion differs from before when the members of a group, or their zones, do; 0 without any.
func (v *View) MembersVersion(group mq.GroupID) uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if all := v.data.members[group]; all != nil {
		return all.version
	}
	return 0
}

// MemberGroups are the living groups of all topics whose partitions have owners, in no order.
func (v *View) MemberGroups() []Group {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []Group
	for _, g := range v.data.groups {
		if !g.Deleted && mq.ByMembers(g.Settings.Mode) {
			out = append(out, g)
		}
	}
	return out
}
