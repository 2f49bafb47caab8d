package gateway

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// maxSettle bounds the receipts of one call, maxSettleBody its body in bytes.
	maxSettle     = 10_000
	maxSettleBody = 16 << 20
	// groupBackoff is the delay that stands for the group's own.
	groupBackoff = -1
)

// settlement is one settle call: what is to be done with each receipt, and what came of it, both in the
// order of the request.
type settlement struct {
	g      *Gateway
	items  []frame.SettleItem
	from   []mq.PartitionID // where each receipt belongs
	errs   []*mqerr.Error
	until  []int64 // extend: the lease's new end, nack: the retry; Unix nanoseconds
	single bool    // the one-receipt form: a failure is the answer itself
	at     string  // where its receipt is in the body; "" for a body that is a receipt
}

// handleSettle is POST /v1/settle: any acts on any receipts.
func (g *Gateway) handleSettle(c echo.Context) error {
	return g.settle(c, func(s *settlement, b []byte) error { return s.parseSettle(b) })
}

// handleAck, handleNack, handleReject, handleExtend and handleRelease are one act each.
func (g *Gateway) handleAck(c echo.Context) error     { return g.act(c, frame.OutcomeAck) }
func (g *Gateway) handleNack(c echo.Context) error    { return g.act(c, frame.OutcomeNack) }
func (g *Gateway) handleReject(c echo.Context) error  { return g.act(c, frame.OutcomeReject) }
func (g *Gateway) handleExtend(c echo.Context) error  { return g.act(c, frame.OutcomeExtend) }
func (g *Gateway) handleRelease(c echo.Context) error { return g.act(c, frame.OutcomeRelease) }

func (g *Gateway) act(c echo.Context, o frame.Outcome) error {
	return g.settle(c, func(s *settlement, b []byte) error { return s.parseAct(b, o) })
}

func (g *Gateway) settle(c echo.Context, parse func(*settlement, []byte) error) error {
	in, err := g.readBody(c, maxSettleBody, bodyTooLarge(maxSettleBody))
	if err != nil {
		return err
	}
	defer in.release()
	s := &settlement{g: g}
	if err := utf8Only(c.Request().Header); err != nil {
		return err
	}
	if err := parse(s, in.b); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	s.send(ctx)
	s.count()
	return s.answer(c)
}

// send sends one frame to the leader of each partition, all at once. What is surely no receipt of this
// cluster goes nowhere.
func (s *settlement) send(ctx context.Context) {
	byPartition := map[mq.PartitionID][]int{}
	var order []mq.PartitionID
	for i := range s.items {
		if s.errs[i] != nil {
			continue
		}
		p := s.from[i]
		at, ok := byPartition[p]
		if !ok {
			if err := s.known(i); err != nil {
				s.errs[i] = err
				continue
			}
			order = append(order, p)
		}
		byPartition[p] = append(at, i)
	}
	if len(order) == 1 {
		s.sendTo(ctx, order[0], byPartition[order[0]])
		return
	}
	var wg sync.WaitGroup
	for _, p := range order {
		wg.Go(func() { s.sendTo(ctx, p, byPartition[p]) })
	}
	wg.Wait()
}

// known says whether there can be a leader for a receipt: waiting for the one of a forged receipt's
// partition would be in vain. What the view does not know yet it may learn, if the receipt is signed.
func (s *settlement) known(i int) *mqerr.Error {
	p := s.from[i]
	t, ok := s.g.view.TopicByID(p.Topic)
	switch {
	case ok && t.Deleted:
		return mqerr.New(mqerr.TopicNotFound, "the receipt's topic was deleted")
	case ok && p.Number < t.Settings.Partitions:
		return nil
	}
	if _, err := mq.VerifyReceipt(s.items[i].Receipt, s.g.view.Secret); err != nil {
		return mqerr.New(mqerr.InvalidReceipt, "")
	}
	return nil
}

// sendTo settles the items with the given indexes, which are of one partition.
func (s *settlement) sendTo(ctx context.Context, p mq.PartitionID, at []int) {
	f := frame.Settle{Partition: p, Items: s.items}
	once := false
	if len(at) != len(s.items) {
		f.Items = make([]frame.SettleItem, len(at))
		for k, i := range at {
			f.Items[k] = s.items[i]
		}
	}
	for i := range f.Items {
		// A second nack or reject would find its own first one and call the receipt stale.
		once = once || f.Items[i].Outcome == frame.OutcomeNack || f.Items[i].Outcome == frame.OutcomeReject
	}
	call := s.g.router.Call
	if once {
		call = s.g.router.CallOnce
	}
	body, err := call(ctx, p, frame.TypeSettle, &f)
	var done frame.Settled
	if err == nil {
		err = done.Parse(body)
	}
	if err == nil && len(done.Codes) != len(at) {
		err = mqerr.New(mqerr.OutcomeUnknown, "the leader speaks of %d receipts, not %d", len(done.Codes), len(at))
	}
	for k, i := range at {
		switch {
		case err != nil:
			s.errs[i] = asError(err)
		case done.Codes[k] != mqerr.OK:
			s.errs[i] = mqerr.New(done.Codes[k], "")
		default:
			s.until[i] = done.Until[k]
		}
	}
}

var actNames = [...]string{frame.OutcomeAck: "ack", frame.OutcomeNack: "nack", frame.OutcomeReject: "reject", frame.OutcomeExtend: "extend",
	frame.OutcomeRelease: "release"}

// settleResults are what becomes of a receipt, in the metrics.
var settleResults = [...]string{"ok", "failed"}

// untilNames say what a result's time is.
var untilNames = [len(actNames)]string{frame.OutcomeNack: `"retry_at":"`, frame.OutcomeExtend: `"lease_expires_at":"`}

// count adds the results to the metrics.
func (s *settlement) count() {
	var counts [len(actNames)][2]int
	for i := range s.items {
		failed := 0
		if s.errs[i] != nil {
			failed = 1
		}
		counts[s.items[i].Outcome][failed]++
	}
	for act, n := range counts {
		for failed, result := range settleResults {
			if n[failed] > 0 {
				s.g.metrics.settled.WithLabelValues(actNames[act], result).Add(float64(n[failed]))
			}
		}
	}
}

// answer writes an api.SettleAnswer.
func (s *settlement) answer(c echo.Context) error {
	b, failed := s.appendResults(append(make([]byte, 0, 64+4*len(s.items)), '{'))
	if s.single && failed > 0 {
		if e := s.errs[0]; e.Code == mqerr.InvalidReceipt && len(e.Fields) == 0 {
			return &mqerr.Error{Code: e.Code, Detail: e.Detail, Fields: []mqerr.Field{{Pointer: s.at, Detail: "is no receipt of this cluster"}}}
		}
		return s.errs[0]
	}
	status := http.StatusOK
	if failed > 0 {
		status = http.StatusMultiStatus
	}
	return c.JSONBlob(status, append(b, '}', '\n'))
}

// appendResults appends the fields of an api.SettleAnswer.
func (s *settlement) appendResults(b []byte) ([]byte, int) {
	failed := 0
	b = append(b, `"results":[`...)
	for i, err := range s.errs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		switch {
		case err != nil:
			failed++
			b = append(b, `"error":`...)
			b = appendItemError(b, err)
		case s.until[i] != 0 && untilNames[s.items[i].Outcome] != "":
			b = append(b, untilNames[s.items[i].Outcome]...)
			b = appendTime(b, s.until[i])
			b = append(b, '"')
		}
		b = append(b, '}')
	}
	b = append(b, `],"failed":`...)
	return strconv.AppendInt(b, int64(failed), 10), failed
}

// defaultLease is the group's own lease, for an extend that names none.
func (s *settlement) defaultLease(group mq.GroupID) time.Duration {
	if gr, ok := s.g.view.GroupByID(group); ok {
		return time.Duration(gr.Settings.Lease)
	}
	return time.Duration(mq.DefaultGroupSettings().Lease)
}
