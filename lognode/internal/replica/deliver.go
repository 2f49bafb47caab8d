package replica

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// receiving is a receive on its way.
type receiving struct {
	stream uint64
	frame.Receive
	reply  Reply
	looks  int    // of the group's filter, for it
	learns int    // how often keys were read for it
	take   uint32 // how many it asks the machine for: more than Max after it found expired ones only
	taken  int    // of those
	unread int    // how many of them could not be read
}

// maxLapsed bounds how many expired messages one receive goes through; then it answers with nothing, says that there is
// more, and is asked again.
const maxLapsed = 50_000

// Receive hands out messages. stream is the number of the gateway's stream.
func (p *Partition) Receive(stream uint64, r frame.Receive, reply Reply) {
	p.receive(receiving{stream: stream, Receive: r, reply: reply, take: r.Max})
}

func (p *Partition) receive(r receiving) {
	p.serve(r.reply.fail, func(l *leadership) {
		if l.seg.Sealed() { // nothing that is decided here can commit any more; the next leader may be at work
			r.reply.fail(mqerr.New(mqerr.NotLeader, "the leader's segment is sealed, and the next one not known here yet"))
			return
		}
		if l.machine.ByMembers(r.Group) && !p.admit(r) {
			return
		}
		now := time.Now()
		l.uses[r.Group] = now
		g, err := l.machine.Receive(p.env.Clock.Now(), delivery.ReceiveRequest{Group: r.Group, Max: int(r.take), Lease: r.Lease,
			Consumer: r.Consumer, Stream: r.stream, Delivery: r.Handover, Account: r.Account, Seen: r.looks >= maxLooks})
		if err != nil {
			delete(l.uses, r.Group)
			r.reply.fail(deliveryError(err))
			return
		}
		answer := frame.Received{Generation: g.Generation, Segment: g.Segment, LeaseUntil: g.LeaseUntil}
		again := func(err error) {
			if err != nil {
				r.reply.fail(err)
				return
			}
			p.receive(r)
		}
		if g.Why == delivery.WhyUnseen && r.looks < maxLooks {
			r.looks++
			p.look(l, r.Group, again)
			return
		}
		if g.Why == delivery.WhyKeys && len(g.Runs) == 0 && r.learns < maxLearns {
			r.learns++
			p.learn(l, r.Group, g.Need, again)
			return
		}
		if len(g.Runs) == 0 {
			if g.Why == delivery.WhyUnseen || g.Why == delivery.WhyKeys || r.taken > 0 {
				answer.Ready = uint64(l.machine.Ready(r.Group))
			}
			r.reply(frame.TypeReceived, &answer)
			return
		}
		answer.Ready = uint64(l.machine.Ready(r.Group))
		l.delivered.add(g.Messages())
		hand := func() { p.handOut(l, r, g.Runs, answer) }
		if !g.MustCommit {
			hand()
			return
		}
		l.afterCommit(func(err error) {
			if err != nil {
				r.reply.fail(err)
				return
			}
			hand()
		})
	})
}

// handOut reads the messages of a grant beside the partition and answers with them. What is past its TTL by then is
// settled instead. What does not fit max_bytes or can't be read goes back uncounted.
func (p *Partition) handOut(l *leadership, r receiving, runs []delivery.Run, answer frame.Received) {
	j := l.journal()
	p.beside(func(ctx context.Context) {
		var back []uint64
		var out readOut
		budget, left := int(r.MaxBytes), r.Max
		for len(runs) > 0 {
			n := 1 // the runs of a lane ascend, and those of the next one begin lower
			for n < len(runs) && runs[n].First > runs[n-1].First {
				n++
			}
			got := uint32(0)
			var old []uint64
			if left > 0 && (budget > 0 || len(answer.Chunks) == 0) {
				var size int
				got, size, old = p.readRuns(ctx, j, runs[:n], budget, &left, &answer, &out)
				budget -= size
			}
			for _, run := range runs[:n] {
				take := min(got, run.Count)
				got -= take
				answer.Runs, old = cutRun(run, take, old, answer.Runs)
				for i := take; i < run.Count; i++ {
					back = append(back, run.First+uint64(i))
				}
			}
			runs = runs[n:]
		}
		if len(back) > 0 {
			answer.Ready += uint64(len(back))
			p.Handover(r.stream, false, frame.Handover{Partition: p.id, Group: r.Group, Handover: r.Handover, Offsets: back})
		}
		p.lapse(&r, out.gone)
		p.unread(&r, out.unread, out.why)
		tried := len(out.gone) + len(out.unread)
		switch {
		case len(answer.Runs) > 0:
			p.env.Metrics.Delivered.Add(float64(messages(answer.Runs)))
			r.reply(frame.TypeReceived, &answer)
		case tried > 0 && r.taken+tried < maxLapsed && r.unread+len(out.unread) < maxUnread:
			r.taken, r.unread = r.taken+tried, r.unread+len(out.unread)
			r.take = uint32(min(2*uint64(r.take), delivery.MaxReceive))
			p.receive(r)
		case tried > 0:
			answer.Ready = max(answer.Ready, 1)
			r.reply(frame.TypeReceived, &answer)
		default:
			r.reply.fail(mqerr.New(mqerr.Internal, "messages of the partition can't be read"))
		}
	})
}

// readOut is what a hand-over read and does not hand over: what is past its TTL, and what can't be read, and why not.
type readOut struct {
	gone, unread []uint64
	why          error
}

// readRuns adds the messages of ascending runs to an answer, at most *left: how many it has dealt with within the budget,
// their size, and which of them are not in the answer, as they are in out.
func (p *Partition) readRuns(ctx context.Context, j journal, runs []delivery.Run, budget int, left *uint32, answer *frame.Received,
	out *readOut) (dealt uint32, size int, not []uint64) {
	w := wanted{}
	for _, run := range runs {
		w.list = append(w.list, stretch{run.First, run.Count})
	}
	for {
		least := uint32(1)
		if len(answer.Chunks) > 0 {
			least = 0
		}
		chunks, n, bytes, err := p.chunks(ctx, j, w.rest(), budget-size, least)
		chunks, took, gone, bad := inTime(chunks, n, left, p.env.Clock.Now())
		dealt, size = dealt+took, size+bytes
		answer.Chunks = append(answer.Chunks, chunks...)
		out.gone, not = append(out.gone, gone...), append(not, gone...)
		w.skip(took)
		off, more := w.next()
		if err = cmp.Or(err, bad); err == nil {
			return dealt, size, not
		}
		if !mqerr.Is(err, mqerr.PartitionDamaged) || took < n {
			p.env.Metrics.ReadErrors.Inc()
			p.log.Error("a message can't be read", "from", runs[0].First, "after", dealt, "err", err)
			return dealt, size, not
		}
		if !more || len(out.unread) == maxUnread {
			return dealt, size, not
		}
		out.unread, out.why, not = append(out.unread, off), err, append(not, off)
		dealt++
		if w.skip(1); len(w.list) == 0 || *left == 0 {
			return dealt, size, not
		}
	}
}

func messages(runs []frame.Run) (n int) {
	for _, r := range runs {
		n += int(r.Count)
	}
	return n
}

func deliveryError(err error) error {
	if e, ok := snapshotError(err); ok {
		return e
	}
	switch {
	case errors.Is(err, delivery.ErrGroupNotFound):
		return mqerr.New(mqerr.GroupNotFound, "the partition does not know the group")
	case errors.Is(err, delivery.ErrNotLeading):
		return mqerr.New(mqerr.NoLeader, "the partition is not led here")
	case errors.Is(err, delivery.ErrTooManyGroups):
		return mqerr.New(mqerr.ValidationFailed, "a topic has at most %d groups", delivery.MaxGroups)
	}
	return err
}

// Handover confirms a hand-over (reached) or gives it back uncounted.
func (p *Partition) Handover(stream uint64, reached bool, h frame.Handover) {
	p.post(func() { p.handover(stream, reached, h) })
}

func (p *Partition) handover(stream uint64, reached bool, h frame.Handover) {
	switch l := p.lead; {
	case l == nil:
	case !l.serving: // behind the receive that it is about
		if len(p.parked) < maxParked {
			p.parked = append(p.parked, parked{func() { p.handover(stream, reached, h) }, func(error) {}})
		}
	case reached:
		l.machine.Confirm(stream, h.Handover)
	default:
		l.machine.Return(p.env.Clock.Now(), stream, h.Handover, h.Offsets...)
	}
}

// StreamGone gives back everything that went out on a gateway's stream and was not confirmed.
func (p *Partition) StreamGone(stream uint64) {
	p.post(func() {
		delete(p.pushes, stream)
		if l := p.lead; l != nil && l.machine != nil {
			l.machine.StreamGone(p.env.Clock.Now(), stream)
		}
	})
}

// Settle settles deliveries; receipts are verified, or the item is refused. The answer comes after commit.
func (p *Partition) Settle(items []delivery.SettleItem, refused []mqerr.Code, reply Reply) {
	p.serve(reply.fail, func(l *leadership) {
		results := l.machine.Settle(p.env.Clock.Now(), items, nil)
		answer := frame.Settled{Codes: refused, Until: make([]int64, len(refused))}
		n := 0
		for i, code := range refused {
			if code != mqerr.OK {
				continue
			}
			answer.Codes[i] = settleCode(results[n].Code)
			answer.Until[i] = results[n].Until
			n++
		}
		l.afterCommit(func(err error) {
			if err != nil {
				reply.fail(err)
				return
			}
			reply(frame.TypeSettled, &answer)
		})
	})
}

func settleCode(c delivery.Code) mqerr.Code {
	switch c {
	case delivery.SettleOK:
		return mqerr.OK
	case delivery.SettleGroupNotFound:
		return mqerr.GroupNotFound
	}
	return mqerr.ReceiptStale
}

// Ready answers how many messages of each group could be handed out now.
func (p *Partition) Ready(groups []mq.GroupID, answer func([]frame.ReadyCount)) {
	out := make([]frame.ReadyCount, len(groups))
	for i, g := range groups {
		out[i] = frame.ReadyCount{Interest: frame.Interest{Partition: p.id, Group: g}, Code: mqerr.NoLeader}
	}
	ok := p.post(func() {
		l, err := p.leader()
		for i, g := range groups {
			switch {
			case p.readOnly() && g == frame.TailGroup: // who follows the end waits there
				out[i].Code, out[i].Count = mqerr.OK, p.remains.l.seg.Commit().Offset
			case p.readOnly():
				out[i].Code = mqerr.PartitionDamaged
			case err != nil:
				out[i].Code = mqerr.Of(err).Code
			case l.serving && !l.seg.Sealed() && g == frame.TailGroup:
				out[i].Code, out[i].Count = mqerr.OK, l.seg.Commit().Offset
				p.followed = time.Now()
			case l.serving && !l.seg.Sealed():
				out[i].Code, out[i].Count = mqerr.OK, uint64(l.machine.Ready(g))
			}
		}
		answer(out)
	})
	if !ok {
		answer(out)
	}
}
