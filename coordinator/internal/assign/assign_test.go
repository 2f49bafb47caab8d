package assign

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func ids(members []Member) []string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = m.ID
	}
	return out
}

// counts is how many partitions each id has, those with none too.
func counts(members []Member, owners []string) map[string]int {
	out := map[string]int{}
	for _, m := range members {
		out[m.ID] = 0
	}
	for _, o := range owners {
		out[o]++
	}
	return out
}

func balanced(members []Member, owners []string) bool {
	n := counts(members, owners)
	if len(n) != len(members) {
		return false // somebody who is none owns something
	}
	low, high := len(owners), 0
	for _, c := range n {
		low, high = min(low, c), max(high, c)
	}
	return high-low <= 1
}

// facts draws members, and owners of whom some may be gone and some never were.
func facts(t *rapid.T, mostMembers, mostPartitions int) Facts {
	zones := []string{"", "a", "b", "c"}
	var f Facts
	for i := range rapid.IntRange(1, mostMembers).Draw(t, "members") {
		f.Members = append(f.Members, Member{fmt.Sprintf("m%d", i), rapid.SampledFrom(zones).Draw(t, "zone")})
	}
	owners := append(ids(f.Members), "", "gone")
	for range rapid.IntRange(0, mostPartitions).Draw(t, "partitions") {
		f.Owners = append(f.Owners, rapid.SampledFrom(owners).Draw(t, "owner"))
		f.Zones = append(f.Zones, rapid.SampledFrom(zones).Draw(t, "leader's zone"))
	}
	return f
}

func TestBalancedAndItsOwnAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := facts(t, 12, 40)
		got := Owners(f)
		if !balanced(f.Members, got) {
			t.Fatalf("%v of %+v is not balanced", got, f)
		}
		// Museum 34: neither the answer nor leaders in other zones are a reason for another rebalance.
		again := Facts{Members: f.Members, Owners: got}
		for range got {
			again.Zones = append(again.Zones, rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "new zone"))
		}
		if next := Owners(again); !slices.Equal(got, next) {
			t.Fatalf("%v becomes %v without a reason", got, next)
		}
	})
}

func TestOrderOfMembersDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := facts(t, 8, 30)
		want := Owners(f)
		f.Members = rapid.Permutation(f.Members).Draw(t, "members")
		if got := Owners(f); !slices.Equal(got, want) {
			t.Fatalf("%v, and %v with members in another order", want, got)
		}
	})
}

// Against all assignments there are: no balanced one moves fewer partitions.
func TestFewestMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := facts(t, 4, 6)
		got := Moved(f.Owners, Owners(f), f.Members)
		best := len(f.Owners) + 1
		all := ids(f.Members)
		try := make([]string, len(f.Owners))
		var search func(p int)
		search = func(p int) {
			if p == len(try) {
				if balanced(f.Members, try) {
					best = min(best, Moved(f.Owners, try, f.Members))
				}
				return
			}
			for _, id := range all {
				try[p] = id
				search(p + 1)
			}
		}
		search(0)
		if got != best {
			t.Fatalf("%d partitions move, %d would do: %+v", got, best, f)
		}
	})
}

// Of what needs an owner anyway as much as possible is near: per zone, what its members lack or what is free there.
func TestNearWhereThereIsRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := facts(t, 6, 20)
		got := Owners(f)
		zone := map[string]string{}
		for _, m := range f.Members {
			zone[m.ID] = m.Zone
		}
		free, near, lacking := map[string]int{}, map[string]int{}, map[string]int{}
		for p, owner := range got {
			if f.Owners[p] == owner {
				continue
			}
			lacking[zone[owner]]++ // all that changed hands was lacking to its new owner
			if z := f.Zones[p]; z != "" {
				free[z]++
				if zone[owner] == z {
					near[z]++
				}
			}
		}
		for z, n := range free {
			if want := min(n, lacking[z]); near[z] != want {
				t.Fatalf("zone %q: %d near of %d free and %d lacking: %+v -> %v", z, near[z], n, lacking[z], f, got)
			}
		}
	})
}

// The first consumer of a group has everything; who comes later gets a share, at the price of exactly that share.
func TestMuseum46FirstConsumerDoesNotKeepEverything(t *testing.T) {
	f := Facts{Members: []Member{{ID: "first"}}, Owners: make([]string, 12)}
	f.Owners = Owners(f)
	for i, want := range []int{6, 4, 3, 2, 2} { // 12 divided by the members, rounded down, is what a newcomer needs
		f.Members = append(f.Members, Member{ID: fmt.Sprintf("later-%d", i)})
		next := Owners(f)
		if !balanced(f.Members, next) {
			t.Errorf("%d members: %v", len(f.Members), counts(f.Members, next))
		}
		if n := Moved(f.Owners, next, f.Members); n != want {
			t.Errorf("member %d costs %d moves, not %d", len(f.Members), n, want)
		}
		f.Owners = next
	}
}

// Whoever leaves, nobody else's partition moves; whoever comes back under the same name meanwhile costs nothing.
func TestMuseum34OnlyTheLeaversPartitionsChangeHands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := facts(t, 10, 40)
		f.Owners = Owners(f)
		if len(f.Members) == 1 {
			return
		}
		i := rapid.IntRange(0, len(f.Members)-1).Draw(t, "leaver")
		left := f
		left.Members = slices.Delete(slices.Clone(f.Members), i, i+1)
		if n := Moved(f.Owners, Owners(left), left.Members); n != 0 {
			t.Fatalf("%d partitions of others move", n)
		}
	})
}

func TestNobodyIsHeardOfTakesNothing(t *testing.T) {
	if got := Owners(Facts{Owners: []string{"a", "", "b"}}); !slices.Equal(got, []string{"a", "", "b"}) {
		t.Errorf("%v", got)
	}
}

// A group at its bounds: 200 members, 1,000 partitions, one member comes or goes.
func BenchmarkOwners(b *testing.B) {
	f := Facts{Owners: make([]string, 1000), Zones: make([]string, 1000)}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		f.Members = append(f.Members, Member{fmt.Sprintf("member-%03d", i), fmt.Sprintf("zone-%d", i%3)})
	}
	for p := range f.Zones {
		f.Zones[p] = fmt.Sprintf("zone-%d", r.IntN(3))
	}
	for b.Loop() {
		f.Owners = Owners(f)
		f.Owners = Owners(Facts{Members: f.Members[1:], Owners: f.Owners, Zones: f.Zones})
	}
}
