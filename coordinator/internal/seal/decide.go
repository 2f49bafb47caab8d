package seal

import (
	"fmt"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// Reason says why a partition's open segment should be sealed and the next one opened.
type Reason string

// The reasons, the roman numbers of replication.md behind them. None: leave it alone.
const (
	None       Reason = ""
	First      Reason = "first"      // there is no open segment
	Restarted  Reason = "restarted"  // (i) the leader's incarnation is not the one in /nodes
	Gone       Reason = "gone"       // (i) the leader's node is not in /nodes
	Suspected  Reason = "suspected"  // somebody says so, and the leader's node did not answer
	Flagged    Reason = "flagged"    // (ii) a replica has a seal flag
	Redundancy Reason = "redundancy" // (iii) a replica is missing and another node could be one
	Asked      Reason = "asked"      // (iv) the leader asks
	Moving     Reason = "moving"     // (iv) an operator or the balance wants another leader or other replicas
	Forced     Reason = "forced"     // an operator goes on with what is left (R6)
)

// Reasons are all but None.
func Reasons() []Reason {
	return []Reason{First, Restarted, Gone, Suspected, Flagged, Redundancy, Asked, Moving, Forced}
}

// Cluster is what the controller knows of the nodes at one moment.
type Cluster struct {
	Now     int64                 // nanoseconds, by a clock that only counts on, and so are all times in a History
	Alive   map[mq.StoreID]uint64 // boot numbers in /nodes
	Suspect map[mq.StoreID]bool   // nodes in /nodes that did not answer just now
	Flagged map[mq.SegmentID]bool // from reports
	Asked   map[mq.SegmentID]bool // from reports
	Opening map[mq.SegmentID]bool // from reports
	// Behind are, by segment, the followers that its leader can't count on: late or silent. From reports.
	Behind  map[mq.SegmentID][]mq.StoreID
	Takers  int                 // nodes that can take segments
	Avoided map[mq.StoreID]bool // nodes that live and are not among the takers
	Drained map[mq.StoreID]bool // nodes that are to be emptied
	// Prefer are the partitions of which another replica should lead.
	Prefer map[mq.PartitionID]mq.StoreID
	// Forced are the partitions whose open segments an operator wants sealed with however many replicas answer.
	Forced map[mq.PartitionID]*Force
	Stormy bool                    // a new controller, or leases that ended together: one TTL must pass first
	Moved  map[mq.PartitionID]bool // changed by us, which the view does not show yet
}

// Force is an operator's word that a segment is to be sealed with however many replicas answer (rule R6).
type Force struct {
	// Store is the replica that must be among them, Node its name; "" for none in particular.
	Store mq.StoreID
	Node  string
	// Empty: also if none answers.
	Empty bool
	By    string
	At    time.Time
}

// Need is a wish to seal, or None. Everyone: only if every replica answers, because it would be too early
// otherwise (details.md, Start). Due, if not 0, is when to ask again. Force is what an operator agreed to, if that counts here.
type Need struct {
	Reason   Reason
	Everyone bool
	Due      int64
	Force    *Force
}

// Living counts the holders of a sealed segment that are registered and answer.
func (c *Cluster) Living(s *mq.Segment) (n int) {
	for _, r := range s.Holders() {
		if _, ok := c.Alive[r.Store]; ok && !c.Suspect[r.Store] {
			n++
		}
	}
	return n
}

// suffixLate is how long after its opening a partition is still taken for one that may not serve yet, if its leader
// does not say so itself.
const suffixLate = int64(10 * time.Second)

// LacksCopies says how many copies of a partition's last sealed segment should be made at once. The new leader brings the
// end of that segment to a quorum before it serves (replication.md step 6), and fewer than a quorum of its holders
// live. Waiting until they are taken for lost, as the repair of other sealed segments does, would take a minute. 0 if none
// lives: there is nothing to copy from. 0 also while the leader itself is away: the partition gets another one now, and a change
// of its head would come in between.
func LacksCopies(h *mq.Head, c *Cluster, past History) int {
	if h.Open == nil || h.Last == nil || h.Last.Base == h.Last.DataEnd() {
		return 0
	}
	if c.away(h.Open.Leader) != None {
		return 0
	}
	recent := past.Segment == h.Open.ID && past.Opened != 0 && c.Now-past.Opened < suffixLate
	living := c.Living(h.Last)
	if !c.Opening[h.Open.ID] && !recent || living == 0 {
		return 0
	}
	return max(0, h.Last.Quorum-living)
}

// room is how many nodes take a partition's next segment, as placement.Choose has it. A registered node that does not answer, and is
// no replica yet, becomes none.
func (c *Cluster) room(h *mq.Head) int {
	takers := c.Takers
	for store := range c.Suspect {
		if _, alive := c.Alive[store]; alive && !c.Avoided[store] && h.Open.ReplicaIndex(store) < 0 {
			takers--
		}
	}
	return takers
}

// Degraded says whether fewer replicas of the open segment live than could.
func Degraded(h *mq.Head, c *Cluster) bool {
	if h.Open == nil {
		return false
	}
	alive := 0
	for _, r := range h.Open.Replicas {
		if _, ok := c.Alive[r.Store]; ok {
			alive++
		}
	}
	return alive < min(h.Replicas, c.room(h))
}

// Look decides from the state whether a partition needs its next segment.
func Look(h *mq.Head, c *Cluster, past History) Need {
	if c.Moved[h.Partition] {
		return Need{}
	}
	reason := reasonFor(h, c, past)
	if reason == None {
		if past.Degraded != 0 {
			return Need{Due: past.Degraded + degraded}
		}
		return Need{}
	}
	if c.Now < past.RetryAt {
		return Need{Due: past.RetryAt}
	}
	force := c.Forced[h.Partition]
	if reason == First || force != nil && reason != Moving && reason != Redundancy { // whoever forces has waited
		return Need{Reason: reason, Force: force}
	}
	if rest := past.Opened + past.vainRest(); reason == Redundancy && past.Segment == h.Open.ID && c.Now < rest {
		return Need{Due: rest}
	}
	// A storm may be trouble with leases alone, and the leader serve. Where a replica is sealed there is no such doubt: the segment
	// needs its next one, and if a controller before this one sealed them all nobody leads until then.
	early := c.Stormy && reason != Flagged || past.Segment == h.Open.ID && c.Now < past.rest()
	if early && reason != Restarted {
		return Need{Due: max(past.rest(), c.Now+restFirst/4)}
	}
	return Need{Reason: reason, Everyone: early}
}

func reasonFor(h *mq.Head, c *Cluster, past History) Reason {
	if h.Open == nil {
		return First
	}
	// A leader that serves overrules a force and a suspicion (Judge): neither may hide what is a reason nevertheless.
	away, forced := c.away(h.Open.Leader), c.Forced[h.Partition] != nil
	switch {
	case away == Restarted:
		return Restarted
	case c.Flagged[h.Open.ID]:
		return Flagged
	case c.Asked[h.Open.ID]:
		return Asked
	case away != None && !forced:
		return away
	case away != None:
		return Forced
	case moving(h, c):
		return Moving
	case replaceable(h, c):
		return Redundancy
	case past.Degraded != 0 && c.Now >= past.Degraded+degraded:
		return Redundancy
	case forced:
		return Forced
	}
	return None
}

// away is why a leader is taken for one that is there no more, or None.
func (c *Cluster) away(leader mq.Incarnation) Reason {
	boot, alive := c.Alive[leader.Store]
	switch {
	case !alive:
		return Gone
	case boot != leader.Boot:
		return Restarted
	case c.Suspect[leader.Store]:
		return Suspected
	}
	return None
}

// moving says whether the open segment should be elsewhere: away from a node that is to be emptied, or led by another
// replica that lives.
func moving(h *mq.Head, c *Cluster) bool {
	if to, ok := c.Prefer[h.Partition]; ok && to != h.Open.Leader.Store && h.Open.ReplicaIndex(to) >= 0 {
		if _, alive := c.Alive[to]; alive && !c.Suspect[to] {
			return true
		}
	}
	for _, r := range h.Open.Replicas {
		if c.Drained[r.Store] && c.Takers >= h.Quorum {
			return true
		}
	}
	return false
}

// Answer is what one replica's node said of one segment.
type Answer struct {
	Node  mq.Incarnation
	Known bool // false is never an empty tail (R3)
	// Damaged: not known, but with what other copies have of it intact up to Tail, which counts only for an operator who goes on
	// with that.
	Damaged    bool
	Tail       mq.Position
	Sealed     bool
	Leads      bool
	Committing bool
}

// Judge decides after the probe whether to seal: nil is "go on", an error says why not. answers are by
// store, without the replicas that gave none.
func Judge(h *mq.Head, need Need, answers map[mq.StoreID]Answer, c *Cluster) error {
	if c.Takers < h.Quorum {
		return fmt.Errorf("%d nodes can take the next segment, %d are needed", c.Takers, h.Quorum)
	}
	seg := h.Open
	if seg == nil {
		return nil
	}
	known, flagged := 0, false
	for _, r := range seg.Replicas {
		if a, ok := answers[r.Store]; ok && a.Known {
			known++
			flagged = flagged || a.Sealed
		}
	}
	leader, answered := answers[seg.Leader.Store]
	restarted := answered && leader.Node != seg.Leader
	serving := answered && !restarted && leader.Leads && (leader.Committing || c.Opening[seg.ID])
	if known < seg.SealAnswers() {
		if need.Force == nil || serving {
			return fmt.Errorf("%d of %d replicas answer for %s, %d are needed", known, len(seg.Replicas), seg, seg.SealAnswers())
		}
		if err := mayForce(h, need.Force, answers); err != nil {
			return err
		}
	}
	if need.Everyone && (known < len(seg.Replicas) || !restarted) {
		return fmt.Errorf("it is too early unless every replica answers, %d of %d do", known, len(seg.Replicas))
	}
	asks := c.Asked[seg.ID] // its disk hangs, say: it can't keep its registration, and knows why it should not go on
	if serving && !flagged && !asks && (need.Reason == Gone || need.Reason == Suspected || need.Reason == Forced) {
		return fmt.Errorf("the leader of %s answers and commits", seg)
	}
	return nil
}

// End is where a segment ends: the highest tail over all replicas that know the segment and have sealed it.
// ok is false while fewer than |replicas| - q + 1 have.
func End(seg *mq.Segment, answers map[mq.StoreID]Answer) (end mq.Position, ok bool) {
	tails := map[mq.StoreID]mq.Position{}
	for store, a := range answers {
		if a.Known && a.Sealed {
			tails[store] = a.Tail
		}
	}
	return seg.Ended(tails)
}

// mayForce says whether what answers is what the operator agreed to go on with.
func mayForce(h *mq.Head, f *Force, answers map[mq.StoreID]Answer) error {
	left := 0
	for _, r := range h.Open.Replicas {
		if answers[r.Store].left() {
			left++
		}
	}
	switch {
	case len(h.Holes) >= mq.MaxHoles:
		return fmt.Errorf("partition %s has %d recorded holes, which is the most", h.Partition, len(h.Holes))
	case f.Store != "" && !answers[f.Store].left():
		return fmt.Errorf("node %s, with which an operator wants to go on, does not answer for %s", f.Node, h.Open)
	case left == 0 && !f.Empty:
		return fmt.Errorf("no replica of %s answers, and the operator did not agree to go on with none", h.Open)
	}
	return nil
}

// left says whether there is something to go on with: a tail, or what is intact of a damaged copy.
func (a Answer) left() bool { return a.Known || a.Damaged }

// ForcedEnd is where a segment ends of which too few replicas answered a seal: the highest tail among those that
// did, or up to where a damaged one is intact, because an operator said so. An error says why not.
func ForcedEnd(h *mq.Head, f *Force, answers map[mq.StoreID]Answer) (mq.Position, error) {
	sealed := map[mq.StoreID]Answer{}
	for store, a := range answers {
		if a.Known && a.Sealed || a.Damaged { // a damaged copy takes nothing any more
			sealed[store] = Answer{Node: a.Node, Known: true, Sealed: true, Tail: a.Tail}
		}
	}
	if err := mayForce(h, f, sealed); err != nil {
		return mq.Position{}, err
	}
	end, _ := End(h.Open, sealed)
	return end, nil
}
