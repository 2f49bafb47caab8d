package seal

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/splashdam/splashdam/coordinator/internal/placement"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// MaxTargets bounds the partitions of one round.
	MaxTargets = 256

	probeDeadline = 500 * time.Millisecond
	sealDeadline  = 2 * time.Second
	// createDeadline covers one sync of each node under load.
	createDeadline = 2 * time.Second
	// grace is how long the others are waited for once enough have answered.
	grace = 50 * time.Millisecond
	// plans is how often a segment is planned anew, without the nodes that did not make it.
	plans = 3
	// openings is how often a segment is made anew because the head that its creation compares was changed meanwhile.
	openings = 3
	// finishFor is how long a round goes on after its context has ended, once it may have sealed something.
	finishFor = 3 * time.Second
)

// Member is a log node with its address; a node whose lease ended stays one, because its replicas may answer.
type Member struct {
	placement.Node
	Addr        string
	Incarnation mq.Incarnation // as last registered
	Live        bool           // registered now
}

// Target is a partition to move.
type Target struct {
	Head mq.Head
	Need Need
}

// Result says what became of a target.
type Result int

// The results of a target.
const (
	Waiting Result = iota // not now: the leader serves, too few answer, nodes failed
	Opened                // the next segment is in etcd
	Changed               // somebody else changed the head meanwhile
)

// Outcome is what became of one target, with its new segment and revision if it was opened.
type Outcome struct {
	Target   Target
	Result   Result
	Segment  mq.Segment
	Revision int64
	Err      error // why it waits
}

// Chains are the transactions of a round, which shared/meta carries out.
type Chains struct {
	NextIDs func(ctx context.Context, n uint64) (first uint64, err error)
	Open    func(ctx context.Context, openings []meta.Opening) (ok bool, revision int64, err error)
	Head    func(ctx context.Context, p mq.PartitionID) (mq.Head, error)
}

// Round moves one batch of partitions.
type Round struct {
	Calls   *Calls
	Chains  Chains
	Cluster Cluster
	ID      string // of the cluster
	Members []Member
	Log     *slog.Logger
	ids     drawn
}

// move is one target on its way.
type move struct {
	Outcome
	answers map[mq.StoreID]Answer
	end     mq.Position
	next    mq.Segment
	exclude map[mq.StoreID]bool // nodes that did not make an earlier plan's segment
	done    bool
}

func (m *move) wait(err error) { m.Err, m.done = err, true }

// Run carries out the steps of replication.md for at most MaxTargets targets and returns an outcome for each. From the seal to
// the opening a partition has no leader, and without a controller gets none: so nothing is sealed unless etcd takes writes just
// before, and when ctx ends after that what was begun is finished, for a few seconds at most.
func (r *Round) Run(ctx context.Context, targets []Target) []Outcome {
	moves := make([]*move, len(targets))
	for i, t := range targets {
		moves[i] = &move{Outcome: Outcome{Target: t}, exclude: map[mq.StoreID]bool{}}
	}
	took := laps{last: time.Now()}
	r.probe(ctx, moves)
	took.lap(&took.probe)
	r.draw(ctx, moves)
	took.lap(&took.draw)
	ctx, cancel := outliving(ctx, finishFor)
	defer cancel()
	r.seal(ctx, moves)
	took.lap(&took.seal)
	for n := range openings {
		for range plans {
			if r.create(ctx, moves) == 0 {
				break
			}
		}
		took.lap(&took.create)
		r.open(ctx, moves)
		took.lap(&took.open)
		if n == openings-1 || r.renew(ctx, moves) == 0 {
			break
		}
	}
	r.Log.Info("round", "partitions", len(moves), "probe", took.probe, "draw", took.draw, "seal", took.seal, "create", took.create, "open", took.open)
	out := make([]Outcome, len(moves))
	for i, m := range moves {
		if !m.done {
			m.wait(fmt.Errorf("no %d nodes made the next segment of %s", m.Target.Head.Quorum, m.Target.Head.Partition))
		}
		out[i] = m.Outcome
	}
	return out
}

// laps is where the time of a round goes. From the beginning of seal to the end of open nobody leads.
type laps struct {
	probe, draw, seal, create, open time.Duration

	last time.Time
}

// lap adds the time since the last lap to one of them.
func (l *laps) lap(to *time.Duration) {
	now := time.Now()
	*to += now.Sub(l.last)
	l.last = now
}

// perMember lists for each member the open segments of living moves of which it is a replica.
func perMember(moves []*move) map[mq.StoreID][]mq.SegmentID {
	out := map[mq.StoreID][]mq.SegmentID{}
	for _, m := range moves {
		if m.done || m.Target.Head.Open == nil {
			continue
		}
		for _, x := range m.Target.Head.Open.Replicas {
			out[x.Store] = append(out[x.Store], m.Target.Head.Open.ID)
		}
	}
	return out
}

func (m *move) take(replies map[mq.StoreID]reply) {
	m.answers = map[mq.StoreID]Answer{}
	if m.Target.Head.Open == nil {
		return
	}
	for _, x := range m.Target.Head.Open.Replicas {
		if rep, ok := replies[x.Store]; ok {
			a := rep.states[m.Target.Head.Open.ID] // missing: unknown
			a.Node = rep.node
			m.answers[x.Store] = a
		}
	}
}

// probe is step 1: it asks everybody, drops the moves that must wait, and leaves the live members that
// answered.
func (r *Round) probe(ctx context.Context, moves []*move) {
	segments := perMember(moves)
	replies, failed := gather(ctx, r.asked(segments), r.Calls.wait(probeDeadline), r.Calls.wait(grace),
		func(ctx context.Context, m Member) (reply, error) {
			rep, err := r.Calls.Probe(ctx, m.Addr, segments[m.Store])
			if err == nil && rep.node.Store != m.Store {
				err = fmt.Errorf("at %s answers store %s, not %s", m.Addr, rep.node.Store, m.Store)
			}
			return rep, err
		},
		func(got map[mq.StoreID]reply) bool { return r.probed(moves, got) })
	for store, err := range failed {
		r.Log.Debug("a node does not answer a probe", "store", store, "err", err)
	}
	var answered []Member
	for _, m := range r.Members {
		if rep, ok := replies[m.Store]; ok {
			m.Live = m.Live && rep.node == m.Incarnation
			answered = append(answered, m)
		}
	}
	r.Members = answered
	r.Cluster.Takers = 0
	for _, m := range answered {
		if m.Live {
			r.Cluster.Takers++
		}
	}
	for _, m := range moves {
		m.take(replies)
		if err := Judge(&m.Target.Head, m.Target.Need, m.answers, &r.Cluster); err != nil {
			m.wait(err)
		}
	}
}

// asked are the live members, which may take segments, and the replicas of what is to be sealed.
func (r *Round) asked(segments map[mq.StoreID][]mq.SegmentID) []Member {
	var out []Member
	for _, m := range r.Members {
		if _, replica := segments[m.Store]; m.Live || replica {
			out = append(out, m)
		}
	}
	return out
}

// probed says that nobody needs to be waited for longer than the grace: every segment has its answers, and
// every leader that might object has said so.
func (r *Round) probed(moves []*move, got map[mq.StoreID]reply) bool {
	for _, m := range moves {
		h := &m.Target.Head
		if h.Open == nil {
			if len(got) < h.Replicas {
				return false
			}
			continue
		}
		n := 0
		for _, x := range h.Open.Replicas {
			if rep, ok := got[x.Store]; ok && rep.states[h.Open.ID].Known {
				n++
			}
		}
		_, leader := got[h.Open.Leader.Store]
		suspicion := m.Target.Need.Reason == Suspected || m.Target.Need.Reason == Gone
		if n < h.Open.SealAnswers() || suspicion && !leader || m.Target.Need.Everyone && n < len(h.Open.Replicas) {
			return false
		}
	}
	return true
}

// seal is steps 2 and 3. Only members that answered the probe are sent to: the grace is for those that live.
func (r *Round) seal(ctx context.Context, moves []*move) {
	segments := perMember(moves)
	var members []Member
	for _, m := range r.Members {
		if len(segments[m.Store]) > 0 {
			members = append(members, m)
		}
	}
	reason := ""
	for _, m := range moves {
		if !m.done {
			reason = string(m.Target.Need.Reason) // of one of them: it is for the node's log
		}
	}
	replies, failed := gather(ctx, members, r.Calls.wait(sealDeadline), r.Calls.wait(grace),
		func(ctx context.Context, m Member) (reply, error) {
			return r.Calls.Seal(ctx, m.Addr, segments[m.Store], reason)
		},
		func(got map[mq.StoreID]reply) bool {
			for _, m := range moves {
				if m.done || m.Target.Head.Open == nil {
					continue
				}
				m.take(got)
				if _, ok := End(m.Target.Head.Open, m.answers); !ok {
					return false
				}
			}
			return true
		})
	for store, err := range failed {
		r.Log.Warn("a node did not seal", "store", store, "err", err)
	}
	for _, m := range moves {
		if m.done || m.Target.Head.Open == nil {
			continue
		}
		m.take(replies)
		var ok bool
		if m.end, ok = End(m.Target.Head.Open, m.answers); ok {
			continue
		}
		err := fmt.Errorf("too few replicas sealed %s", m.Target.Head.Open)
		if f := m.Target.Need.Force; f != nil {
			m.end, err = ForcedEnd(&m.Target.Head, f, m.answers)
		}
		if err != nil {
			m.wait(err)
		}
	}
}
