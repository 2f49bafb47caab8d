package gateway

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

const (
	// historyPage is for how many dead letters histories are read between two looks at the time that is left.
	historyPage = 8
	// maxHistories bounds the dead letters of one answer with histories.
	maxHistories = 100
	// historyAskers is how many traces one request reads at once.
	historyAskers = 4
)

// addHistories reads from the journal what became of each attempt of dead letters. One whose history can't be read says why, and
// the others have theirs.
func (g *Gateway) addHistories(ctx context.Context, group mq.GroupID, list []api.HeldMessage) {
	var eg errgroup.Group
	eg.SetLimit(historyAskers)
	for i := range list {
		eg.Go(func() error {
			m := &list[i]
			id, err := mq.ParseMessageID(m.ID)
			if err == nil {
				var r *mqpb.TraceResponse
				if r, err = g.traceOf(ctx, id, false); err == nil {
					m.History, m.HistoryLeftOut = newestAttempts(historyOf(r.GetEvents(), group))
				}
			}
			if err != nil {
				m.HistoryError = api.ItemErrorOf(err)
			}
			return nil
		})
	}
	_ = eg.Wait() // none of them fails
}

// newestAttempts are the last ones that an answer shows, and how many came before them.
func newestAttempts(all []api.DeadAttempt) ([]api.DeadAttempt, int) {
	old := max(0, len(all)-api.MaxHistory)
	return all[old:], old
}

// resultOf says how an event ends an attempt; EXTENDED ends none, and what is published elsewhere is no attempt.
var resultOf = map[string]string{"NACKED": resultFailed, "POSTPONED": resultPostponed, "DEAD": resultDead, "ACKNOWLEDGED": resultAcked,
	"EXPIRED": "lease_expired", "RETURNED": "returned", "REDRIVEN": "redriven", "SEEK": "seek", "DEAD_REMOVED": "removed", "FILTERED": "filtered"}

// historyOf makes attempts of what a trace says of one group, in order. A redrive or a seek, after which attempts begin anew,
// stands between them. Of what retention removed the hand-overs or the ends may be missing.
func historyOf(events []*mqpb.TraceEvent, group mq.GroupID) []api.DeadAttempt {
	byTime(events)
	out := []api.DeadAttempt{}
	open := false // the last one of out has not ended
	for _, e := range events {
		if mq.GroupID(e.GetGroup()) != group {
			continue
		}
		switch e.GetType() {
		case eventDelivered, "REDELIVERED":
			out, open = append(out, api.DeadAttempt{Attempt: e.GetAttempt(), DeliveredAt: timeOf(e.GetAt()), Consumer: e.GetConsumer()}), true
			continue
		case "EXPIRED":
			if e.GetUntil() == 0 { // past its TTL, or removed: nobody had it
				out, open = append(out, api.DeadAttempt{EndedAt: timeOf(e.GetAt()), Result: "expired", Reason: e.GetReason()}), false
				continue
			}
		}
		result, ends := resultOf[e.GetType()]
		if !ends {
			continue
		}
		if !open || result == "redriven" || result == "seek" {
			out = append(out, api.DeadAttempt{Attempt: e.GetAttempt()})
		}
		last := &out[len(out)-1]
		last.EndedAt, last.Result, last.Reason = timeOf(e.GetAt()), result, e.GetReason()
		if result != "seek" {
			last.RetryAt = timeOf(e.GetUntil())
		}
		open = false
	}
	return out
}
