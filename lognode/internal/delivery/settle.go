package delivery

import (
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// Outcome is what a consumer says about a message.
type Outcome uint8

// The outcomes.
const (
	Ack    Outcome = iota // done
	Nack                  // failed, to be tried again
	Reject                // failed for good
	Extend                // still at work
	// Postpone is a Nack whose attempt does not count: it was not the message's fault.
	Postpone
	// Release gives back what its consumer has not begun to work on: ready again at once, as if it had not been handed out.
	Release
)

// SettleItem settles one delivery.
type SettleItem struct {
	Receipt mq.Receipt // verified
	Outcome Outcome
	// Delay of a Nack or Postpone in nanoseconds, at most mq.MaxBackoff; negative for the group's back-off.
	Delay int64
	// Lease of an Extend in nanoseconds from now, at most mq.MaxLease; 0 for the group's.
	Lease int64
	// Reason of anything but an Extend or Release, for the trace; cut at mq.MaxReasonBytes, and not kept beyond MaxTexts.
	Reason string
}

// Code says how a settle item went.
type Code uint8

// The codes.
const (
	SettleOK            Code = iota
	SettleStale              // receipt_stale: settled otherwise, handed out again, or of an older generation
	SettleGroupNotFound      // the group is not known in this partition
)

// SettleResult is what became of an item. It may be told when the records of the call have committed.
type SettleResult struct {
	Code  Code
	State State // of the message after the call; not set without a group
	// Until is the deadline of an extended lease, or when a nacked message is ready again; else 0.
	Until int64
}

// Settle decides on each item in turn and appends its result to out. Acking twice is fine. A receipt counts until
// the message is acked or dead or was handed out again, whether or not its lease ran out, and whether or not
// this leader knows of it. A machine that does not lead knows no group.
func (m *Machine) Settle(now int64, items []SettleItem, out []SettleResult) []SettleResult {
	for i := range items {
		out = append(out, m.settle(now, &items[i]))
	}
	m.done()
	return out
}

func (m *Machine) settle(now int64, it *SettleItem) SettleResult {
	r := &it.Receipt
	g := m.groups[r.Group]
	if g == nil || !m.leading {
		return SettleResult{Code: SettleGroupNotFound}
	}
	off, f := r.Offset, fence{r.Segment, r.Counter}
	state, x := g.state(off)
	if r.Partition != m.partition || r.Generation != g.generation || off < g.Start || off >= m.committed || m.forged(f) {
		return SettleResult{Code: SettleStale, State: state}
	}
	switch {
	case state == StateAcked && it.Outcome == Ack:
		return SettleResult{State: StateAcked}
	case state == StateAcked, state == StateDead, x != nil && f.less(x.fence):
		return SettleResult{Code: SettleStale, State: state}
	}
	attempt := uint32(1) // a receipt that outlived the record of its lease was a first attempt
	if x != nil {
		attempt = max(x.attempt, 1)
	}
	switch it.Outcome {
	case Ack:
		m.note(g, now, outAcked, now, cut(it.Reason, mq.MaxReasonBytes), mark{first: off, count: 1})
		g.ack(off)
		return SettleResult{State: StateAcked}
	case Extend:
		until := now + extension(g, it.Lease)
		m.note(g, now, outExtended, until, "", mark{first: off, count: 1, attempt: attempt, fence: f, due: now})
		g.leaseUntil(off, attempt, f, until)
		return SettleResult{State: StateLeased, Until: until}
	case Postpone:
		if state != StateLeased { // by an earlier call, or its lease ran out: it comes again as it is
			return SettleResult{State: state}
		}
		until := m.postpone(g, now, off, attempt-1, f, it.Delay, m.kept(it.Reason, mq.MaxReasonBytes, otherReason))
		return SettleResult{State: StateWaiting, Until: until}
	case Release:
		if state == StateLeased { // else as for Postpone
			m.note(g, now, outReturned, now, "", mark{first: off, count: 1, attempt: attempt - 1, fence: f, due: now})
			g.giveBack(off, attempt-1, f)
			state = StateReady
		}
		return SettleResult{State: state}
	}
	o, reason := outNacked, it.Reason
	if it.Outcome == Reject {
		o = outDead
	}
	state, until := m.failed(g, now, off, attempt, f, o, it.Delay, m.kept(reason, mq.MaxReasonBytes, otherReason))
	if state == StateDead {
		until = 0
	}
	return SettleResult{State: state, Until: until}
}

// postpone takes a message back for a while. At least a moment, so that it always waits.
func (m *Machine) postpone(g *group, now int64, off uint64, attempts uint32, f fence, delay int64, reason string) (until int64) {
	if delay < 0 {
		delay = backoff(g.Settings.Backoff, g.ID, off, attempts+1)
	}
	until = now + max(1, min(delay, int64(mq.MaxBackoff)))
	m.note(g, now, outPostponed, now, reason, mark{first: off, count: 1, attempt: attempts, fence: f, due: until})
	g.fail(off, attempts, f, until, now, reason)
	return until
}

// forged says that a fence was never given out: a bug elsewhere, which must not raise the fences of messages above
// those that this leader will give.
func (m *Machine) forged(f fence) bool { return (fence{m.segment, m.counter}).less(f) }

func extension(g *group, lease int64) int64 {
	if lease <= 0 {
		lease = int64(time.Duration(g.Settings.Lease))
	}
	return min(lease, int64(mq.MaxLease))
}

// state is where the message at off is, and the message if it is out.
func (g *group) state(off uint64) (State, *message) {
	l := g.m.lanes.of(off)
	if off < g.fresh[l] || len(g.early[l].spans) > 0 || len(g.m.lanes.holes) > 0 {
		if x := g.out[off]; x != nil {
			return x.state, x
		}
		if !g.isFresh(l, off) {
			return StateAcked, nil
		}
	}
	return StateReady, nil
}
