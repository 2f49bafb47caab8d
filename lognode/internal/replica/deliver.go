package replica

import (
	"context"
	"errors"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Receive hands out messages. stream is the number of the gateway's stream.
func (p *Partition) Receive(stream uint64, r frame.Receive, reply Reply) {
	p.serve(reply.fail, func(l *leadership) {
		now := time.Now()
		l.uses[r.Group] = now
		g, err := l.machine.Receive(now.UnixNano(), delivery.ReceiveRequest{Group: r.Group, Max: int(r.Max),
			Lease: r.Lease, Consumer: r.Consumer, Stream: stream, Delivery: r.Handover, Account: r.Account})
		if err != nil {
			delete(l.uses, r.Group)
			reply.fail(deliveryError(err))
			return
		}
		answer := frame.Received{Generation: g.Generation, Segment: g.Segment, LeaseUntil: g.LeaseUntil}
		if len(g.Runs) == 0 {
			reply(frame.TypeReceived, &answer)
			return
		}
		answer.Ready = uint64(l.machine.Ready(r.Group))
		l.delivered.add(g.Messages())
		hand := func() { p.handOut(l, stream, r, g.Runs, answer, reply) }
		if !g.MustCommit {
			hand()
			return
		}
		l.afterCommit(func(err error) {
			if err != nil {
				reply.fail(err)
				return
			}
			hand()
		})
	})
}

// handOut reads the messages of a grant beside the partition and answers with them. What does not fit max_bytes
// or can't be read goes back uncounted.
func (p *Partition) handOut(l *leadership, stream uint64, r frame.Receive, runs []delivery.Run, answer frame.Received, reply Reply) {
	j := l.journal()
	p.beside(func(ctx context.Context) {
		var back []uint64
		budget := int(r.MaxBytes)
		for len(runs) > 0 {
			n := 1 // the runs of a lane ascend, and those of the next one begin lower
			for n < len(runs) && runs[n].First > runs[n-1].First {
				n++
			}
			got := uint32(0)
			if budget > 0 || len(answer.Chunks) == 0 {
				var size int
				got, size = p.readRuns(ctx, j, runs[:n], max(budget, 1), &answer)
				budget -= size
			}
			for _, run := range runs[:n] {
				take := min(got, run.Count)
				if got -= take; take > 0 {
					answer.Runs = append(answer.Runs, frame.Run{First: run.First, Count: take, Attempt: run.Attempt, Counter: run.Counter})
				}
				for i := take; i < run.Count; i++ {
					back = append(back, run.First+uint64(i))
				}
			}
			runs = runs[n:]
		}
		if len(back) > 0 {
			answer.Ready += uint64(len(back))
			p.Handover(stream, false, frame.Handover{Partition: p.id, Group: r.Group, Handover: r.Handover, Offsets: back})
		}
		if len(answer.Runs) == 0 {
			reply.fail(mqerr.New(mqerr.Internal, "messages of the partition can't be read"))
			return
		}
		p.env.Metrics.Delivered.Add(float64(messages(answer.Runs)))
		reply(frame.TypeReceived, &answer)
	})
}

// readRuns adds the messages of ascending runs to an answer: how many could be read within the budget, and their size.
func (p *Partition) readRuns(ctx context.Context, j journal, runs []delivery.Run, budget int, answer *frame.Received) (uint32, int) {
	list := make([]stretch, len(runs))
	for i, run := range runs {
		list[i] = stretch{run.First, run.Count}
	}
	chunks, n, size, err := p.chunks(ctx, j, list, budget)
	if err != nil {
		p.env.Metrics.ReadErrors.Inc()
		p.log.Error("a message can't be read", "from", runs[0].First, "after", n, "err", err)
	}
	answer.Chunks = append(answer.Chunks, chunks...)
	return n, size
}

func messages(runs []frame.Run) (n int) {
	for _, r := range runs {
		n += int(r.Count)
	}
	return n
}

func deliveryError(err error) error {
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
		l.machine.Return(time.Now().UnixNano(), stream, h.Handover, h.Offsets...)
	}
}

// StreamGone gives back everything that went out on a gateway's stream and was not confirmed.
func (p *Partition) StreamGone(stream uint64) {
	p.post(func() {
		delete(p.pushes, stream)
		if l := p.lead; l != nil && l.machine != nil {
			l.machine.StreamGone(time.Now().UnixNano(), stream)
		}
	})
}

// Settle settles deliveries; receipts are verified, or the item is refused. The answer comes after commit.
func (p *Partition) Settle(items []delivery.SettleItem, refused []mqerr.Code, reply Reply) {
	p.serve(reply.fail, func(l *leadership) {
		results := l.machine.Settle(time.Now().UnixNano(), items, nil)
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
			case err != nil:
				out[i].Code = mqerr.Of(err).Code
			case l.serving:
				out[i].Code, out[i].Count = mqerr.OK, uint64(l.machine.Ready(g))
			}
		}
		answer(out)
	})
	if !ok {
		answer(out)
	}
}
