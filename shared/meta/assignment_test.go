package meta

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

func TestNextSaysWhatChanged(t *testing.T) {
	none := Assignment{Group: 7, Topic: 3, Name: "g"}
	first, changed := none.Next([]string{"a", "b"}, []string{"a", "b", "a"})
	if !changed || first.Generation != 1 || first.Partitions != 3 {
		t.Fatalf("%+v", first)
	}
	if a, _ := first.Of("a"); !slices.Equal(a.Partitions, []uint32{0, 2}) || a.Since != 1 {
		t.Errorf("%+v", a)
	}
	if same, changed := first.Next([]string{"a", "b"}, []string{"a", "b", "a"}); changed {
		t.Errorf("%+v is no change", same)
	}
	// c joins and takes what a had at the end; b has what it had, since when it had it.
	second, changed := first.Next([]string{"a", "b", "c"}, []string{"a", "b", "c"})
	if !changed {
		t.Fatal("c joined")
	}
	since := map[string]uint64{}
	for _, m := range second.Members {
		since[m.Name] = m.Since
	}
	if want := (map[string]uint64{"a": 2, "b": 1, "c": 2}); fmt.Sprint(since) != fmt.Sprint(want) {
		t.Errorf("%v, not %v", since, want)
	}
	// A member that stands by changes the assignment, but nobody's partitions.
	third, changed := second.Next([]string{"a", "b", "c", "d"}, []string{"a", "b", "c"})
	if a, _ := third.Of("a"); !changed || a.Since != 2 {
		t.Errorf("%v, %+v", changed, a)
	}
}

func TestAssignmentsThatContradictThemselvesAreRefused(t *testing.T) {
	for name, a := range map[string]Assignment{
		"too many partitions": {Partitions: mq.MaxPartitions + 1},
		"no such partition":   {Partitions: 1, Members: []AssignedMember{{Name: "a", Partitions: []uint32{1}}}},
		"two owners": {Partitions: 1, Members: []AssignedMember{{Name: "a", Partitions: []uint32{0}},
			{Name: "b", Partitions: []uint32{0}}}},
		"out of order": {Members: []AssignedMember{{Name: "b"}, {Name: "a"}}},
	} {
		if a.index() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestMembersAndAssignmentsInTheView(t *testing.T) {
	s, ctx := testStore(t)
	v := NewView(s, quiet(), WithMembers)
	runView(t, ctx, v)
	_, changed := v.Assignment(5)
	m, err := s.JoinMember(ctx, Member{Name: "a", Group: 5, TTL: mq.Duration(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.WaitFor(ctx, func(v *View) bool { got, ok := v.Member(5, "a"); return ok && got.Lease == m.Lease }); err != nil {
		t.Fatal(err)
	}
	version := v.MembersVersion(5)
	// Joining again under the name is no change that an assignment follows from.
	again, err := s.JoinMember(ctx, Member{Name: "a", Group: 5, TTL: mq.Duration(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if err := v.WaitFor(ctx, func(v *View) bool { got, _ := v.Member(5, "a"); return got.Lease == again.Lease }); err != nil {
		t.Fatal(err)
	}
	if v.MembersVersion(5) != version {
		t.Error("who joins again under its name is the same member")
	}
	if err := s.RenewMember(ctx, m); !mqerr.Is(err, mqerr.MemberExpired) {
		t.Errorf("renewing what was taken over: %v", err)
	}
	next, _ := (&Assignment{Group: 5, Topic: 1, Name: "g"}).Next([]string{"a"}, []string{"a", "a"})
	if ok, err := s.PutAssignment(ctx, next); !ok || err != nil {
		t.Fatal(ok, err)
	}
	select {
	case <-changed:
	case <-ctx.Done():
		t.Fatal("nobody was told of the assignment")
	}
	if owner, generation := v.Owner(5, 1); owner != "a" || generation != 1 {
		t.Errorf("%q since %d", owner, generation)
	}
	if owner, _ := v.Owner(5, 2); owner != "" {
		t.Errorf("partition 2 does not exist and is owned by %q", owner)
	}
	if ok, err := s.PutAssignment(ctx, next); ok || err != nil { // its revision is 0: there is one already
		t.Errorf("an assignment was overwritten: %v, %v", ok, err)
	}
	have, changed := v.Assignment(5)
	if err := s.ForgetAssignment(ctx, have.Group); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-ctx.Done():
		t.Fatal("nobody was told that there is none any more")
	}
	if err := v.WaitFor(ctx, func(v *View) bool { _, ok := v.Member(5, "a"); return !ok }); err != nil {
		t.Fatal(err)
	}
}

func TestMembersHaveABound(t *testing.T) {
	s, ctx := testStore(t)
	for i := range mq.MaxMembers {
		if _, err := s.c.Put(ctx, memberKey(9, fmt.Sprintf("m%d", i)), "{}"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.JoinMember(ctx, Member{Name: "one-more", Group: 9, TTL: mq.Duration(time.Minute)}); !mqerr.Is(err, mqerr.ValidationFailed) {
		t.Errorf("%v", err)
	}
	if m, err := s.JoinMember(ctx, Member{Name: "m7", Group: 9, TTL: mq.Duration(time.Minute)}); err != nil || m.Name != "m7" {
		t.Errorf("one that is there joins again: %v", err)
	}
}
