package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// probeTimeout bounds how long a replica has to say what it holds.
const probeTimeout = time.Second

// maxForcedBy bounds the name of who forces a partition.
const maxForcedBy = 200

// handleForceRecover makes a partition go on that lost more replicas than it can do without, with what is left of it.
// What that gives up is recorded and shown; with dry_run it is only shown.
func (g *Gateway) handleForceRecover(c echo.Context) error {
	dry, err := queryBool(c, "dry_run")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	p, err := g.pathPartition(ctx, c)
	if err != nil {
		return err
	}
	var req api.ForceRecoverRequest
	if err = g.readOptions(c, &req); err == nil {
		err = checkForce(&req, dry)
	}
	if err != nil {
		return err
	}
	plan, err := g.planForce(ctx, p, &req)
	if err != nil {
		return err
	}
	if dry || !plan.answer.Needed {
		return answerJSON(c, http.StatusOK, plan.answer)
	}
	by := req.By
	if by == "" {
		by = c.RealIP()
	}
	plan.force.By, plan.force.At = by, g.clock.now().UTC()
	g.log.Warn("a partition is forced", "partition", p, "by", by, "node", req.Node, "lost", plan.answer.Lost)
	if err := g.forceThrough(ctx, p, &req, plan); err != nil {
		return err
	}
	return answerJSON(c, http.StatusOK, plan.answer)
}

func checkForce(req *api.ForceRecoverRequest, dry bool) error {
	if !req.AcceptLoss && !dry {
		return invalid("/accept_loss", "must be true: forcing a partition gives up messages; look at it with ?dry_run=true first")
	}
	if len(req.By) > maxForcedBy || strings.ContainsFunc(req.By, func(r rune) bool { return r < ' ' }) {
		return invalid("/by", "must be at most %d bytes without control characters", maxForcedBy)
	}
	return nil
}

// forcePlan is what forcing a partition would do.
type forcePlan struct {
	head   mq.Head
	force  meta.Force
	answer api.ForceRecoverAnswer
	// served: the partition goes on meanwhile. sealed: what is lost lies in sealed segments, too.
	served, sealed bool
}

// planForce looks at what is left of a partition.
func (g *Gateway) planForce(ctx context.Context, p mq.PartitionID, req *api.ForceRecoverRequest) (*forcePlan, error) {
	head, sealed, err := g.store.Chain(ctx, p)
	if err != nil && !mqerr.Is(err, mqerr.PartitionNotFound) { // the topic has it, and the controller makes it soon
		return nil, err
	}
	if head.Open == nil {
		return nil, mqerr.New(mqerr.NoLeader, "the partition has had no leader yet: there is nothing to recover")
	}
	plan := &forcePlan{head: head, force: meta.Force{Segment: head.Open.ID, Node: req.Node, Empty: req.Empty},
		answer: api.ForceRecoverAnswer{Partition: p.Number, Segment: uint64(head.Open.ID), Leader: head.Open.LeaderNode()}}
	a := &plan.answer
	if figures := g.partitionFigures(ctx, []mq.PartitionID{p})[p]; figures.err == nil && figures.answer.GetReadOnly() == "" {
		return plan, plan.whileServed(req, sealed, g.probeHolders(ctx, sealed))
	}
	states := g.probeHolders(ctx, append(sealed, *head.Open))
	a.Replicas = describeReplicas(head.Open, head.Open.Replicas, states)
	if err := plan.choose(req, states); err != nil {
		return nil, err
	}
	enough := answering(head.Open, head.Open.Replicas, states) >= head.Open.SealAnswers()
	if !enough {
		end := highest(head.Open, head.Open.Replicas, states)
		a.Needed = true
		a.Because = "too few replicas of the open segment answer to know where it ends"
		if damaged(head.Open, states) {
			a.Because = "the open segment is damaged, and too few whole replicas answer to know where it ends"
		}
		a.Lost = append(a.Lost, api.LostRange{From: end.Offset, To: end.Offset + mq.HoleJump, Forced: true, By: req.By, Node: req.Node})
	}
	if broken := plan.lose(req, sealed, states); len(broken) > 0 {
		for _, s := range broken {
			if err := plan.someLeft(req, s, states); err != nil {
				return nil, err
			}
		}
		plan.sealed = true
		if enough { // its leader opens, and sees to them: another open segment would change nothing
			plan.force.Served, plan.force.Store = true, ""
		}
	}
	if !a.Needed {
		a.Because = "enough replicas answer: the partition goes on by itself as soon as enough nodes can take its next segment"
	}
	return plan, nil
}

// lose adds what no holder that answers has of sealed segments. It says of which.
func (plan *forcePlan) lose(req *api.ForceRecoverRequest, sealed []mq.Segment, states holderStates) (of []*mq.Segment) {
	a := &plan.answer
	for i := range sealed {
		s := &sealed[i]
		end := highest(s, s.Holders(), states)
		if missing := len(s.Holders()) - answering(s, s.Holders(), states); missing < s.Quorum || !end.Before(s.DataEnd()) {
			continue
		}
		a.Needed = true
		a.Because = "no holder that answers has the rest of a sealed segment"
		if damaged(s, states) {
			a.Because = "a sealed segment is damaged, and no whole copy answers"
		}
		a.Lost = append(a.Lost, api.LostRange{From: end.Offset, To: s.DataEnd().Offset, Forced: true, By: req.By, Node: req.Node})
		of = append(of, s)
	}
	return of
}

// whileServed plans for a partition that goes on: only what it does not need to do so can be lost, in sealed segments.
func (plan *forcePlan) whileServed(req *api.ForceRecoverRequest, sealed []mq.Segment, states holderStates) error {
	a := &plan.answer
	broken := plan.lose(req, sealed, states)
	if len(broken) == 0 {
		a.Because = "the partition is served by " + a.Leader
		return nil
	}
	plan.force.Served, plan.served = true, true
	a.Because += ", and the partition goes on without it, led by " + a.Leader
	a.Replicas = describeReplicas(broken[0], broken[0].Holders(), states)
	for _, s := range broken {
		if err := plan.holder(req, s, states); err != nil {
			return err
		}
	}
	return nil
}

// holder checks the replica that the operator wants to go on with against a sealed segment that is lost in part.
func (plan *forcePlan) holder(req *api.ForceRecoverRequest, s *mq.Segment, states holderStates) error {
	named := req.Node == ""
	for _, r := range s.Holders() {
		if st := states.of(s.ID, r.Store); (st.known || st.damaged) && r.Node == req.Node {
			named, plan.force.Store = true, r.Store
		}
	}
	if !named {
		return mqerr.New(mqerr.NotEnoughReplicas, "node %s does not answer for the damaged segment of offsets %d to %d, or has nothing of it",
			req.Node, s.Base.Offset, s.DataEnd().Offset-1)
	}
	return plan.someLeft(req, s, states)
}

// someLeft refuses to give up a sealed segment of which nothing is left, unless the operator said that.
func (plan *forcePlan) someLeft(req *api.ForceRecoverRequest, s *mq.Segment, states holderStates) error {
	for _, r := range s.Holders() {
		if st := states.of(s.ID, r.Store); st.known || st.damaged || req.Empty {
			return nil
		}
	}
	return mqerr.New(mqerr.NotEnoughReplicas, "no replica of the segment of offsets %d to %d answers; "+
		"with empty=true all of it is given up", s.Base.Offset, s.DataEnd().Offset-1)
}

// choose checks the replica that the operator wants to go on with.
func (plan *forcePlan) choose(req *api.ForceRecoverRequest, states holderStates) error {
	open := plan.head.Open
	if req.Node == "" {
		if answering(open, open.Replicas, states) == 0 && !damaged(open, states) && !req.Empty && len(open.Replicas) > 0 {
			return mqerr.New(mqerr.NotEnoughReplicas, "no replica of the open segment answers; "+
				"with empty=true the partition goes on without any, and all of the segment is lost")
		}
		return nil
	}
	for _, r := range open.Replicas {
		if r.Node != req.Node {
			continue
		}
		if st := states.of(open.ID, r.Store); !st.known && !st.damaged {
			return mqerr.New(mqerr.NotEnoughReplicas, "node %s does not answer for the open segment, or has nothing of it", r.Node)
		}
		plan.force.Store = r.Store
		return nil
	}
	return noReplicaOf(open, "/node", req.Node)
}

// maxForces bounds how often a partition is forced for one call: for its open segment, and then for sealed ones, of which the
// leader of the next segment must hear under that one's name. One more is for a leader that changed in between.
const maxForces = 3

// forceThrough forces a partition until nothing is left that keeps it from going on, and answers all that was given up.
func (g *Gateway) forceThrough(ctx context.Context, p mq.PartitionID, req *api.ForceRecoverRequest, plan *forcePlan) error {
	first, known := &plan.answer, plan.head.Holes
	by, at := plan.force.By, plan.force.At
	whoever := *req
	whoever.Node = "" // it named a replica of the segment that was open
	for range maxForces {
		if err := g.force(ctx, p, plan); err != nil {
			return err
		}
		first.Segment, first.Leader = plan.answer.Segment, plan.answer.Leader
		first.Forced = first.Forced || plan.answer.Forced
		if !plan.sealed {
			break
		}
		next, err := g.planForce(ctx, p, &whoever)
		if err != nil {
			return err
		}
		plan.head = next.head
		if !next.answer.Needed || next.served { // it goes on
			break
		}
		plan = next
		plan.force.By, plan.force.At = by, at
	}
	first.Lost = describeHoles(mq.NewHoles(known, plan.head.Holes))
	return nil
}

// force sets the wish and waits for what comes of it.
func (g *Gateway) force(ctx context.Context, p mq.PartitionID, plan *forcePlan) error {
	if err := g.store.SetForce(ctx, p, plan.force); err != nil {
		return err
	}
	if plan.served { // a leader looks for such a wish when it comes to what it can't read
		from := frame.Place{Where: frame.AtOffset, Value: plan.answer.Lost[0].From}
		to := frame.Place{Where: frame.AtOffset, Value: from.Value + 1}
		if _, err := g.readLeader(ctx, &frame.Read{Partition: p, From: from, To: to, Limit: 1, MaxBytes: 1}); err == nil {
			if err := g.store.ForgetForce(ctx, p); err != nil {
				return err
			}
			return mqerr.New(mqerr.NothingToRecover, "offset %d can be read: the partition is mended, or another replica answers now", from.Value)
		}
	}
	before := len(plan.head.Holes)
	var now mq.Head
	err := g.view.WaitFor(ctx, func(v *meta.View) bool {
		h, ok := v.Head(p)
		now = h
		return ok && (h.Open != nil && h.Open.ID != plan.head.Open.ID || len(h.Holes) > before)
	})
	if err != nil {
		return mqerr.New(mqerr.OutcomeUnknown, "the partition has not gone on yet; the wish stands for %s. "+
			"Are %d nodes alive to take its next segment?", meta.ForceFor, plan.head.Quorum)
	}
	plan.head, plan.answer.Forced = now, len(now.Holes) > before
	plan.answer.Segment, plan.answer.Leader = uint64(now.Open.ID), now.Open.LeaderNode()
	return nil
}

// holderState is what a node said of a segment; a damaged copy is not known, and intact up to tail, with what others have of it.
type holderState struct {
	known, damaged bool
	tail           mq.Position
}

type holderStates map[mq.StoreID]map[mq.SegmentID]holderState

func (h holderStates) of(s mq.SegmentID, store mq.StoreID) holderState { return h[store][s] }

// probeHolders asks every holder of the segments what it has of them, each node once.
func (g *Gateway) probeHolders(ctx context.Context, segments []mq.Segment) holderStates {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	asked := map[mq.StoreID][]uint64{}
	for i := range segments {
		for _, r := range segments[i].Holders() {
			asked[r.Store] = append(asked[r.Store], uint64(segments[i].ID))
		}
	}
	type answer struct {
		store mq.StoreID
		res   *mqpb.ProbeResponse
	}
	answers := make(chan answer, len(asked))
	for store, ids := range asked {
		go func() {
			a := answer{store: store}
			if n, ok := g.view.NodeByStore(store); ok {
				if client, err := g.router.ControlNode(n.Name); err == nil {
					a.res, _ = client.Probe(ctx, &mqpb.ProbeRequest{Segments: ids}) // without an answer nothing is known
				}
			}
			answers <- a
		}()
	}
	out := holderStates{}
	for range asked {
		a := <-answers
		if a.res.GetNode().GetStore() != string(a.store) {
			continue
		}
		out[a.store] = map[mq.SegmentID]holderState{}
		for _, s := range a.res.GetSegments() {
			out[a.store][mq.SegmentID(s.GetSegment())] = holderState{s.GetKnown(), s.GetDamaged(), s.Left()}
		}
	}
	return out
}

func answering(s *mq.Segment, holders []mq.Replica, states holderStates) (n int) {
	for _, r := range holders {
		if states.of(s.ID, r.Store).known {
			n++
		}
	}
	return n
}

// damaged says whether a replica of a segment answers that its copy is damaged.
func damaged(s *mq.Segment, states holderStates) bool {
	return slices.ContainsFunc(s.Holders(), func(r mq.Replica) bool { return states.of(s.ID, r.Store).damaged })
}

// highest is how far the holders that answer have a segment, damaged ones up to where they are intact.
func highest(s *mq.Segment, holders []mq.Replica, states holderStates) mq.Position {
	end := s.Base
	for _, r := range holders {
		if st := states.of(s.ID, r.Store); (st.known || st.damaged) && end.Before(st.tail) {
			end = st.tail
		}
	}
	return end
}

func describeReplicas(s *mq.Segment, holders []mq.Replica, states holderStates) []api.ForceReplica {
	out := []api.ForceReplica{}
	for _, r := range holders {
		st := states.of(s.ID, r.Store)
		x := api.ForceReplica{Node: r.Node, Answers: st.known, Damaged: st.damaged}
		if st.known || st.damaged {
			x.NextOffset = st.tail.Offset
		}
		out = append(out, x)
	}
	return out
}
