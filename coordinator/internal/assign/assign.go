// Package assign divides a group's partitions among its members. It is pure: the same facts, in whatever order they
// are told, have the same answer.
//
// Three wishes, the earlier one first. Balance: no member has more than one partition more than another, whatever
// they had before (museum 46: a "sticky" assignor that lets the first consumer keep everything is none). Fewest
// moves: of all balanced answers one that takes the fewest partitions from a living owner. Near: a partition that
// needs an owner anyway goes to a member in the zone of its leader, if one has room; nearness alone never moves one,
// so a leader that moves causes no rebalance. An answer is its own answer: what was decided is not decided again
// (museum 34).
package assign

import "slices"

// Member is a living member of a group.
type Member struct {
	ID   string // unique in the group
	Zone string // "" if it did not say
}

// Facts are what an assignment follows from.
type Facts struct {
	Members []Member
	// Owners are the owners until now, by partition; "" for none. Its length is the number of partitions.
	Owners []string
	// Zones are the zones of the partitions' leaders, "" where unknown; nil if nobody cares.
	Zones []string
}

// Owners answers the owner of each partition. Without members it is what was: that nobody is heard of is no reason
// to take anything from anybody.
func Owners(f Facts) []string {
	out := slices.Clone(f.Owners)
	if len(f.Members) == 0 {
		return out
	}
	d := newDivision(f, out)
	d.quotas()
	d.release()
	d.fill()
	return out
}

// Moved counts the partitions that had a living owner before and have another one after. What nobody owned, or
// somebody who is gone, is not moved but placed.
func Moved(before, after []string, members []Member) (n int) {
	living := make(map[string]bool, len(members))
	for _, m := range members {
		living[m.ID] = true
	}
	for p, owner := range after {
		if p < len(before) && before[p] != owner && living[before[p]] {
			n++
		}
	}
	return n
}

// division is one assignment being made.
type division struct {
	members []Member // by id
	index   map[string]int
	zones   []string
	owners  []string // what will be answered; "" while a partition needs an owner
	have    []int    // partitions by member
	quota   []int    // what each will have
}

func newDivision(f Facts, owners []string) *division {
	d := &division{members: slices.Clone(f.Members), zones: f.Zones, owners: owners}
	slices.SortFunc(d.members, func(a, b Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	d.index = make(map[string]int, len(d.members))
	for i, m := range d.members {
		d.index[m.ID] = i
	}
	d.have, d.quota = make([]int, len(d.members)), make([]int, len(d.members))
	for p, owner := range owners {
		if i, ok := d.index[owner]; ok {
			d.have[i]++
		} else {
			owners[p] = ""
		}
	}
	return d
}

// quotas says how many partitions each member will have: all the same, and one more where that lets a member keep
// one of its own. Each member gives up what it has beyond its quota and nothing else, so this decides the moves, and
// no other way to give out the remainder saves more of them.
func (d *division) quotas() {
	least, rest := len(d.owners)/len(d.members), len(d.owners)%len(d.members)
	order := make([]int, len(d.members))
	for i := range order {
		order[i], d.quota[i] = i, least
	}
	slices.SortStableFunc(order, func(a, b int) int { return d.have[b] - d.have[a] })
	for _, i := range order[:rest] {
		d.quota[i]++
	}
}

// release takes from each member what is beyond its quota, first what is far from it, then the highest numbers.
func (d *division) release() {
	for _, far := range [...]bool{true, false} {
		for p := len(d.owners) - 1; p >= 0; p-- {
			i, ok := d.index[d.owners[p]]
			if !ok || d.have[i] <= d.quota[i] || far && d.near(p, i) {
				continue
			}
			d.owners[p] = ""
			d.have[i]--
		}
	}
}

// near says whether a partition's leader and a member are in the same zone, as far as known.
func (d *division) near(p, i int) bool {
	return p < len(d.zones) && d.zones[p] != "" && d.zones[p] == d.members[i].Zone
}

// fill gives out what has no owner, near members first. Zones do not compete: a member is near the partitions of one
// zone only, so taking them in turn finds the most that can be near.
func (d *division) fill() {
	for p, owner := range d.owners {
		if owner == "" {
			d.give(p, d.neediest(func(i int) bool { return d.near(p, i) }))
		}
	}
	for p, owner := range d.owners {
		if owner == "" {
			d.give(p, d.neediest(func(int) bool { return true }))
		}
	}
}

// neediest is the member that lacks the most of its quota, the first by id, or -1.
func (d *division) neediest(eligible func(i int) bool) int {
	best, lacks := -1, 0
	for i := range d.members {
		if n := d.quota[i] - d.have[i]; n > lacks && eligible(i) {
			best, lacks = i, n
		}
	}
	return best
}

func (d *division) give(p, i int) {
	if i >= 0 {
		d.owners[p] = d.members[i].ID
		d.have[i]++
	}
}
