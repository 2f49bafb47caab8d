package seal

import (
	"fmt"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

const second = int64(time.Second)

func pos(offset uint64) mq.Position { return mq.Position{Offset: offset} }

func replicas(n int) []mq.Replica {
	var out []mq.Replica
	for i := range n {
		out = append(out, mq.Replica{Store: mq.StoreID(fmt.Sprint("s", i+1)), Node: fmt.Sprint("n", i+1)})
	}
	return out
}

// open is a partition with three replicas, quorum two, led by s1 in its first boot, based at 10.
func open() mq.Head {
	seg := &mq.Segment{ID: 5, Number: 2, Base: pos(10), Replicas: replicas(3), Quorum: 2, Leader: mq.Incarnation{Store: "s1", Boot: 1}}
	last := &mq.Segment{ID: 4, Number: 1, Sealed: true, End: pos(10), Replicas: replicas(3), Quorum: 2}
	return mq.Head{Replicas: 3, Quorum: 2, Next: 3, Open: seg, Last: last}
}

// calm is a cluster of three live nodes at second 100.
func calm() Cluster {
	return Cluster{Now: 100 * second, Alive: map[mq.StoreID]uint64{"s1": 1, "s2": 1, "s3": 1}, Takers: 3}
}

func TestLook(t *testing.T) {
	type change func(h *mq.Head, c *Cluster, p *History)
	gone := func(past History) change {
		return func(_ *mq.Head, c *Cluster, p *History) {
			delete(c.Alive, "s1")
			*p = past
		}
	}
	cluster := func(f func(c *Cluster)) change {
		return func(_ *mq.Head, c *Cluster, _ *History) { f(c) }
	}
	restarted := func(past History) change {
		return func(_ *mq.Head, c *Cluster, p *History) {
			c.Alive["s1"] = 2
			*p = past
		}
	}
	now := 100 * second
	yes := map[mq.SegmentID]bool{5: true}
	for name, c := range map[string]struct {
		change change
		want   Need
	}{
		"all is well":        {cluster(func(*Cluster) {}), Need{}},
		"nothing open":       {func(h *mq.Head, _ *Cluster, _ *History) { h.Open = nil }, Need{Reason: First}},
		"nothing, in storm":  {func(h *mq.Head, c *Cluster, _ *History) { h.Open, c.Stormy = nil, true }, Need{Reason: First}},
		"restarted":          {restarted(History{}), Need{Reason: Restarted}},
		"gone":               {gone(History{}), Need{Reason: Gone}},
		"follower gone":      {cluster(func(c *Cluster) { delete(c.Alive, "s2"); c.Takers = 2 }), Need{}},
		"suspected":          {cluster(func(c *Cluster) { c.Suspect = map[mq.StoreID]bool{"s1": true} }), Need{Reason: Suspected}},
		"follower suspected": {cluster(func(c *Cluster) { c.Suspect = map[mq.StoreID]bool{"s2": true} }), Need{}},
		"a seal flag":        {cluster(func(c *Cluster) { c.Flagged = yes }), Need{Reason: Flagged}},
		"the leader asks":    {cluster(func(c *Cluster) { c.Asked = yes }), Need{Reason: Asked}},
		"of another segment": {cluster(func(c *Cluster) { c.Asked = map[mq.SegmentID]bool{4: true} }), Need{}},
		"moved by us":        {cluster(func(c *Cluster) { c.Asked = yes; c.Moved = map[mq.PartitionID]bool{{}: true} }), Need{}},

		"gone 0.4 s after the opening": {gone(History{Segment: 5, Opened: now - 400*second/1000}), Need{Due: now + 600*second/1000}},
		"gone 2 s after the opening":   {gone(History{Segment: 5, Opened: now - 2*second}), Need{Reason: Gone}},
		"gone 2 s after it, two empty": {gone(History{Segment: 5, Opened: now - 2*second, Idle: 2}), Need{Due: now + 2*second}},
		"gone 59 s after it, 40 empty": {gone(History{Segment: 5, Opened: now - 59*second, Idle: 40}), Need{Due: now + second}},
		"a rest of another segment":    {gone(History{Segment: 4, Opened: now}), Need{Reason: Gone}},
		"gone, and a failed try":       {gone(History{}.Failed(now)), Need{Due: now + second/10}},
		"restarted 0.4 s after it":     {restarted(History{Segment: 5, Opened: now - 400*second/1000}), Need{Reason: Restarted, Everyone: true}},
		"restarted, in a storm": {func(h *mq.Head, c *Cluster, p *History) { restarted(History{})(h, c, p); c.Stormy = true },
			Need{Reason: Restarted, Everyone: true}},
		"gone, in a storm": {func(h *mq.Head, c *Cluster, p *History) { gone(History{})(h, c, p); c.Stormy = true },
			Need{Due: now + second/4}},
		"a seal flag, in a storm": {cluster(func(c *Cluster) { c.Flagged, c.Stormy = yes, true }), Need{Reason: Flagged}},
		"asked, in a storm":       {cluster(func(c *Cluster) { c.Asked, c.Stormy = yes, true }), Need{Due: now + second/4}},
		"a seal flag 0.4 s after the opening": {func(_ *mq.Head, c *Cluster, p *History) {
			c.Flagged, *p = yes, History{Segment: 5, Opened: now - 400*second/1000}
		}, Need{Due: now + 600*second/1000}},
		"degraded for 4 s":  {func(_ *mq.Head, _ *Cluster, p *History) { p.Degraded = now - 4*second }, Need{Due: now + 6*second}},
		"degraded for 11 s": {func(_ *mq.Head, _ *Cluster, p *History) { p.Degraded = now - 11*second }, Need{Reason: Redundancy}},
	} {
		t.Run(name, func(t *testing.T) {
			h, cl, past := open(), calm(), History{}
			c.change(&h, &cl, &past)
			if got := Look(&h, &cl, past); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestDegraded(t *testing.T) {
	h, c := open(), calm()
	if Degraded(&h, &c) {
		t.Error("three of three replicas live")
	}
	delete(c.Alive, "s3")
	c.Takers = 2
	if Degraded(&h, &c) {
		t.Error("one is missing and there is no other node")
	}
	c.Alive["s4"], c.Takers = 1, 3
	if !Degraded(&h, &c) {
		t.Error("one is missing and another node is there")
	}
}

// known are answers of replicas without seal flags; the first one leads and commits.
func known(tails ...uint64) map[mq.StoreID]Answer {
	out := map[mq.StoreID]Answer{}
	for i, tail := range tails {
		s := mq.StoreID(fmt.Sprint("s", i+1))
		out[s] = Answer{Node: mq.Incarnation{Store: s, Boot: 1}, Known: true, Tail: pos(tail), Leads: i == 0, Committing: i == 0}
	}
	return out
}

func TestJudge(t *testing.T) {
	type change func(m map[mq.StoreID]Answer, c *Cluster)
	of := func(s mq.StoreID, f func(a *Answer)) change {
		return func(m map[mq.StoreID]Answer, _ *Cluster) {
			a := m[s]
			f(&a)
			m[s] = a
		}
	}
	without := func(stores ...mq.StoreID) change {
		return func(m map[mq.StoreID]Answer, _ *Cluster) {
			for _, s := range stores {
				delete(m, s)
			}
		}
	}
	both := func(a, b change) change {
		return func(m map[mq.StoreID]Answer, c *Cluster) { a(m, c); b(m, c) }
	}
	stuck := of("s1", func(a *Answer) { a.Committing = false })
	anew := of("s1", func(a *Answer) { a.Node.Boot = 2 })
	unknown := of("s2", func(a *Answer) { *a = Answer{Node: a.Node} })
	opening := func(_ map[mq.StoreID]Answer, c *Cluster) { c.Opening = map[mq.SegmentID]bool{5: true} }
	asks := func(_ map[mq.StoreID]Answer, c *Cluster) { c.Asked = map[mq.SegmentID]bool{5: true} }
	for name, c := range map[string]struct {
		need   Need
		change change
		seal   bool
	}{
		"gone, commits and asks: it hangs":   {Need{Reason: Gone}, asks, true},
		"gone and silent":                    {Need{Reason: Gone}, without("s1"), true},
		"gone, but it answers and commits":   {Need{Reason: Gone}, without(), false},
		"suspected, but it commits":          {Need{Reason: Suspected}, without("s2"), false},
		"suspected, and does not commit":     {Need{Reason: Suspected}, stuck, true},
		"suspected, and opening":             {Need{Reason: Suspected}, both(stuck, opening), false},
		"suspected, commits, another sealed": {Need{Reason: Suspected}, of("s2", func(a *Answer) { a.Sealed = true }), true},
		"suspected, and is another run":      {Need{Reason: Suspected}, anew, true},
		"it commits and asks":                {Need{Reason: Asked}, without(), true},
		"one of three answers":               {Need{Reason: Gone}, without("s1", "s2"), false},
		"two answer, one knows it":           {Need{Reason: Gone}, both(without("s1"), unknown), false},
		"too few nodes for the next":         {Need{Reason: Restarted}, func(_ map[mq.StoreID]Answer, c *Cluster) { c.Takers = 1 }, false},
		"early, restarted, all answer":       {Need{Reason: Restarted, Everyone: true}, anew, true},
		"early, restarted, two answer":       {Need{Reason: Restarted, Everyone: true}, both(anew, without("s3")), false},
		"early, restarted, one is unknown":   {Need{Reason: Restarted, Everyone: true}, both(anew, unknown), false},
		"early, and not restarted after all": {Need{Reason: Restarted, Everyone: true}, without(), false},
	} {
		t.Run(name, func(t *testing.T) {
			h, cl, answers := open(), calm(), known(12, 12, 12)
			c.change(answers, &cl)
			if err := Judge(&h, c.need, answers, &cl); (err == nil) != c.seal {
				t.Errorf("sealed: %v (%v), want %v", err == nil, err, c.seal)
			}
		})
	}
	h, cl := open(), calm()
	h.Open = nil
	if err := Judge(&h, Need{Reason: First}, nil, &cl); err != nil {
		t.Errorf("a first segment: %v", err)
	}
}

func TestHistory(t *testing.T) {
	old, next := &mq.Segment{ID: 1, Base: pos(3)}, &mq.Segment{ID: 2, Base: pos(3)}
	h := History{}.Moved(5, Gone, old, next).Moved(6, Asked, next, &mq.Segment{ID: 3, Base: pos(3)})
	if h.Idle != 2 || h.Segment != 3 || h.Opened != 6 {
		t.Errorf("two empty ones: %+v", h)
	}
	if h = h.Moved(7, Asked, &mq.Segment{Base: pos(3)}, &mq.Segment{Base: pos(4)}); h.Idle != 0 {
		t.Errorf("progress: %+v", h)
	}
	last := int64(0)
	for range 20 {
		h = h.Failed(0)
		if h.RetryAt < last || h.RetryAt > retryMost {
			t.Fatalf("%+v after %d", h, last)
		}
		last = h.RetryAt
	}
	if last != retryMost {
		t.Errorf("ends at %d", last)
	}
}

// The last segment is copied at once for a leader that lives and may not serve without, not while the partition gets another one.
func TestLacksCopies(t *testing.T) {
	recent := History{Segment: 5, Opened: 99 * second}
	gone := func(stores ...mq.StoreID) func(*Cluster) {
		return func(c *Cluster) {
			for _, s := range stores {
				delete(c.Alive, s)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*Cluster)
		past   History
		want   int
	}{
		"a quorum lives":              {gone("s2"), recent, 0},
		"one holder, just opened":     {gone("s2", "s3"), recent, 1},
		"one holder, opened long ago": {gone("s2", "s3"), History{Segment: 5, Opened: second}, 0},
		"it says that it waits": {func(c *Cluster) {
			gone("s2", "s3")(c)
			c.Opening = map[mq.SegmentID]bool{5: true}
		}, History{}, 1},
		"the leader is gone": {gone("s1", "s3"), recent, 0},
		"the leader is silent": {func(c *Cluster) {
			gone("s3")(c)
			c.Suspect = map[mq.StoreID]bool{"s1": true}
		}, recent, 0},
		"the leader was restarted": {func(c *Cluster) {
			gone("s2", "s3")(c)
			c.Alive["s1"] = 2
		}, recent, 0},
		"none lives": {gone("s1", "s2", "s3"), recent, 0},
	} {
		h, cluster := open(), calm()
		c.change(&cluster)
		if got := LacksCopies(&h, &cluster, c.past); got != c.want {
			t.Errorf("%s: %d copies, want %d", name, got, c.want)
		}
	}
}
