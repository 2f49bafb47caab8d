package segment

import (
	"fmt"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// copies are the replicas of one segment, with what each has on its disk.
type copies struct {
	t      *testing.T
	seg    mq.Segment
	leader *Leader
	reps   []*Replica
	disk   []map[mq.Position]string
}

func newCopies(t *testing.T, seg mq.Segment, prev mq.Position) *copies {
	t.Helper()
	l, err := NewLeader(seg, prev, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.Chained()
	c := &copies{t: t, seg: seg, leader: l}
	for range seg.Replicas {
		c.reps = append(c.reps, NewReplica(seg, seg.Base, seg.Base, false, nil))
		c.disk = append(c.disk, map[mq.Position]string{})
	}
	return c
}

// write places a message and offers it to the replicas that it reaches, each of which makes it durable and, if it may,
// acknowledges it. It says whether it was committed.
func (c *copies) write(what string, reaches ...int) (mq.Position, bool) {
	c.t.Helper()
	e := mq.Entry{Count: 1}
	if err := c.leader.Place(&e, 1); err != nil {
		c.t.Fatal(err)
	}
	for _, i := range reaches {
		r := c.reps[i]
		if r.Offer(&e, c.seg.Leader) != Take {
			continue
		}
		c.disk[i][e.At] = what
		if err := r.Durable(e.Next()); err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.leader.Acked(i, r.Acknowledged()); err != nil {
			c.t.Fatal(err)
		}
	}
	return e.At, !c.leader.Commit().Before(e.Next())
}

// recover is what a controller does with those that answer: seal, and take the highest tail. unfenced leaves the seals out.
func (c *copies) recover(unfenced bool, answer ...int) mq.Position {
	c.t.Helper()
	tails := map[mq.StoreID]mq.Position{}
	for _, i := range answer {
		if !unfenced {
			c.reps[i].Seal()
			c.reps[i].SetFlagged()
		}
		tails[c.seg.Replicas[i].Store] = c.reps[i].Tail()
	}
	end, ok := c.seg.Ended(tails)
	if !ok {
		c.t.Fatalf("%d answers are too few", len(answer))
	}
	return end
}

// hear tells a replica the decided end; what is longer is cut.
func (c *copies) hear(i int, end mq.Position) (cut bool) {
	c.t.Helper()
	cut, err := c.reps[i].SetEnd(end)
	if err != nil {
		c.t.Fatal(err)
	}
	for at := range c.disk[i] {
		if !at.Before(end) {
			delete(c.disk[i], at)
		}
	}
	return cut
}

// others are the replicas of three but for one.
func others(of int) []int { return []int{(of + 1) % 3, (of + 2) % 3} }

// Museum 11: recovery that reads without fencing, so that the old writer still reaches a quorum. Whichever two of three replicas
// a recovery has asked, the writer that lives on commits nothing any more. Without the fence it does, beyond the end.
func TestMuseum11RecoveryFencesTheOldWriter(t *testing.T) {
	for away := range 3 {
		for _, unfenced := range []bool{false, true} {
			c := newCopies(t, testSegment(3, 2), testSegment(3, 2).Base)
			if _, ok := c.write("before", 0, 1, 2); !ok {
				t.Fatal("three of three have it, and it is not committed")
			}
			end := c.recover(unfenced, others(away)...)
			_, committed := c.write("after", 0, 1, 2)
			if committed != unfenced {
				t.Errorf("without node %d, unfenced %v: what the old writer wrote after the recovery is committed: %v", away, unfenced, committed)
			}
			if beyond := end.Before(c.leader.Commit()); beyond != unfenced {
				t.Errorf("without node %d, unfenced %v: the end is %s, and the old writer has committed to %s", away, unfenced, end, c.leader.Commit())
			}
		}
	}
}

// elections are three leaders in a row, each of which writes one message; see TestMuseum14.
type elections struct {
	t     *testing.T
	name  string
	chain []*copies
	ends  []mq.Position
	said  map[mq.Position]string // what was acknowledged, by position
	cuts  int
}

// round has a leader write one message to itself and to those followers that mask says, and then be replaced by what
// those see that are not away. It returns the next leader.
func (x *elections) round(leader, mask, away int) int {
	x.t.Helper()
	n := len(x.chain)
	seg := testSegment(3, 2)
	seg.ID, seg.Number = mq.SegmentID(10+n), uint64(n+1)
	seg.Leader = mq.Incarnation{Store: seg.Replicas[leader].Store, Boot: seg.Leader.Boot}
	seg.Base = mq.Position{}
	if n > 0 {
		seg.Base = x.ends[n-1]
	}
	c := newCopies(x.t, seg, seg.Base)
	if n > 0 {
		x.spread(n-1, leader)
	}
	reaches := []int{leader}
	for k, i := range others(leader) {
		if mask&(1<<k) != 0 {
			reaches = append(reaches, i)
		}
	}
	what := fmt.Sprintf("%s/%d", x.name, n)
	if at, ok := c.write(what, reaches...); ok {
		x.said[at] = what
	}
	end := c.recover(false, others(away)...)
	x.chain, x.ends = append(x.chain, c), append(x.ends, end)
	for _, i := range others(away) {
		if c.hear(i, end); c.reps[i].Tail() == end {
			leader = i
		}
	}
	return leader
}

// spread gives everybody what the new leader has of the segment before its own; who was away hears of the end first.
func (x *elections) spread(n, leader int) {
	x.t.Helper()
	c := x.chain[n]
	for i := range 3 {
		if c.hear(i, x.ends[n]) {
			x.cuts++
		}
	}
	for at, what := range c.disk[leader] {
		for i, r := range c.reps {
			e := mq.Entry{Segment: c.seg.ID, At: at, Prev: c.seg.Base, Count: 1, Boot: c.seg.Leader.Boot}
			if r.Copied(&e) == Take {
				c.disk[i][at] = what
			}
		}
	}
}

// check is that all copies agree, and that all that was acknowledged is in the chain, at its place.
func (x *elections) check() {
	x.t.Helper()
	inChain := map[mq.Position]string{}
	for n, c := range x.chain {
		for i := range 3 {
			c.hear(i, x.ends[n])
			for at, what := range c.disk[i] {
				if have, ok := inChain[at]; ok && have != what {
					x.t.Fatalf("%s: at %s there is %q, and on node %d %q", x.name, at, have, i, what)
				}
				inChain[at] = what
			}
		}
	}
	for at, what := range x.said {
		if inChain[at] != what {
			x.t.Fatalf("%s: %q was acknowledged at %s, where %q is", x.name, what, at, inChain[at])
		}
	}
}

// Museum 14: quick successive elections diverge. Three leaders follow each other, each writes one message which reaches any of
// the others or none, and any one node is away when it is replaced: whoever comes back with what nobody else had, at a
// place where there is something else by then, has it cut. All 1,728 ways.
func TestMuseum14SuccessiveElectionsDoNotDiverge(t *testing.T) {
	const ways = 4 * 3 // which followers it reaches, who is away
	cuts := 0
	for way := range ways * ways * ways {
		x := &elections{t: t, name: fmt.Sprintf("way %d", way), said: map[mq.Position]string{}}
		leader := 0
		for rest, n := way, 0; n < 3; rest, n = rest/ways, n+1 {
			leader = x.round(leader, rest%4, rest/4%3)
		}
		x.check()
		cuts += x.cuts
	}
	if cuts == 0 {
		t.Error("nobody ever came back with more than the others had")
	}
}
