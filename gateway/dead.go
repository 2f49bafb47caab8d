package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/proto"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

const (
	// deadPage is how many dead letters one call to a leader looks at.
	deadPage = 10_000
	minRate  = 0.01
	maxRate  = 1_000_000
	// mostSpread is how far ahead a rate may put a message; what would be later stays dead.
	mostSpread = 30 * 24 * time.Hour
)

// groupRoutes are the calls that act on what a group has, beside its settings.
func (g *Gateway) groupRoutes() []route {
	const group = "/v1/topics/:topic/groups/:group"
	return []route{
		{http.MethodGet, group + "/dead", g.handleDeadMessages, []string{"partition", "limit", "cursor", "reason", "key", "died_after", "died_before", "history"}},
		{http.MethodDelete, group + "/dead", g.handleDeleteDead, []string{"reason", "key", "died_after", "died_before", "ids", "limit", "dry_run"}},
		{http.MethodPost, group + "/redrive", g.handleRedrive, []string{"dry_run"}},
		{http.MethodPost, group + "/seek", g.handleSeek, []string{"dry_run"}},
		{http.MethodPost, group + "/snapshots", g.handleCreateSnapshot, nil},
		{http.MethodGet, group + "/snapshots", g.handleListSnapshots, nil},
		{http.MethodGet, group + "/snapshots/:snapshot", g.handleGetSnapshot, nil},
		{http.MethodDelete, group + "/snapshots/:snapshot", g.handleDeleteSnapshot, []string{"dry_run"}},
	}
}

// deadWork is one redrive or removal over the partitions of a topic.
type deadWork struct {
	topic    meta.Topic
	group    mq.GroupID
	act      string // count, redrive or remove
	filter   *mqpb.DeadFilter
	byID     map[uint32]*deadIDs // by partition, nil for all
	interval time.Duration
	left     uint64 // messages that may still be taken
	limited  bool   // the caller said how many
	out      api.DeadResult
}

// deadIDs are the messages of one partition that a caller named: by offset, and those that were scheduled by number.
type deadIDs struct{ offsets, numbers []uint64 }

// handleRedrive makes dead letters ready again, for the same group.
func (g *Gateway) handleRedrive(c echo.Context) error {
	req := api.RedriveRequest{Filter: unsaidFilter(), Rate: unsaidRate, Limit: unsaidLimit, To: unsaidReason}
	if err := g.readOptions(c, &req); err != nil {
		return err
	}
	switch {
	case req.Rate == unsaidRate:
		req.Rate = 0
	case !(req.Rate >= minRate && req.Rate <= maxRate):
		return validation(mq.FieldError{Pointer: "/rate", Detail: fmt.Sprintf("must be %g to %d messages a second: leave it out for all at once", minRate, maxRate)})
	}
	switch {
	case req.Limit == 0:
		return validation(mq.FieldError{Pointer: "/limit", Detail: "must be 1 or more: leave it out for all of them"})
	case req.Limit == unsaidLimit:
		req.Limit = 0
	}
	if req.Filter == nil {
		req.Filter = unsaidFilter()
	}
	w := &deadWork{act: "redrive", left: req.Limit}
	if req.To != unsaidReason {
		w.out.To = req.To
		if err := mq.CheckName(req.To); err != nil {
			return validation(mq.FieldError{Pointer: "/to", Detail: err.Error()})
		}
	}
	if req.Rate > 0 {
		w.interval = time.Duration(float64(time.Second) / req.Rate)
	}
	return g.actOnDead(c, w, req.Filter, "/filter")
}

// handleDeleteDead removes dead letters for good.
func (g *Gateway) handleDeleteDead(c echo.Context) error {
	limit, err := queryInt(c, "limit", 0, 1, 1_000_000_000)
	if err != nil {
		return err
	}
	filter, err := queryDeadFilter(c)
	if err != nil {
		return err
	}
	return g.actOnDead(c, &deadWork{act: "remove", left: uint64(limit)}, filter, "query")
}

func (g *Gateway) actOnDead(c echo.Context, w *deadWork, filter *api.DeadFilter, at string) (err error) {
	if w.out.DryRun, err = queryBool(c, "dry_run"); err != nil {
		return err
	}
	if w.out.DryRun {
		w.act = "count"
	}
	if w.limited = w.left > 0; !w.limited {
		w.left = 1 << 62
	}
	var group meta.Group
	if w.topic, group, err = g.pathGroup(c); err != nil {
		return err
	}
	w.group = group.ID
	if err := w.choose(filter, at); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	if err := g.workOrMove(ctx, w, &group); err != nil {
		return err
	}
	status := http.StatusOK
	if w.out.Partial {
		status = http.StatusMultiStatus
	}
	return answerJSON(c, status, w.out)
}

// workOrMove does the work where the dead letters are, or moves them to another topic.
func (g *Gateway) workOrMove(ctx context.Context, w *deadWork, group *meta.Group) error {
	if w.out.To == "" {
		return g.workOnDead(ctx, w)
	}
	target, err := g.redriveTarget(ctx, w)
	switch {
	case err != nil:
		return err
	case w.out.DryRun:
		return g.workOnDead(ctx, w)
	}
	return g.moveDead(ctx, w, group, target)
}

// choose makes the leaders' filter of the caller's.
func (w *deadWork) choose(f *api.DeadFilter, at string) error {
	if err := checkSaid(f, at); err != nil {
		return err
	}
	w.filter = &mqpb.DeadFilter{Reason: f.Reason, Since: unixOf(f.DiedAfter), Before: unixOf(f.DiedBefore)}
	if f.Key != nil {
		w.filter.ByKey, w.filter.Key = true, []byte(*f.Key)
	}
	bad := func(field, format string, args ...any) error {
		return validation(mq.FieldError{Pointer: at + "/" + field, Detail: fmt.Sprintf(format, args...)})
	}
	switch {
	case len(f.Reason) > mq.MaxReasonBytes:
		return bad("reason", "has at most %d bytes", mq.MaxReasonBytes)
	case !f.DiedAfter.IsZero() && !f.DiedBefore.IsZero() && !f.DiedAfter.Before(f.DiedBefore):
		return bad("died_before", "must be after died_after")
	case f.IDs == nil:
		return nil
	case len(f.IDs) == 0 || len(f.IDs) > api.MaxDeadIDs:
		return bad("ids", "names 1 to %d messages: leave it out for any", api.MaxDeadIDs)
	}
	w.byID = map[uint32]*deadIDs{}
	for _, text := range f.IDs {
		id, err := mq.ParseMessageID(text)
		if err != nil || id.Partition.Topic != w.topic.ID {
			return bad("ids", "%.80q is not the id of a message of topic %s", text, w.topic.Name)
		}
		in := w.byID[id.Partition.Number]
		if in == nil {
			in = &deadIDs{}
			w.byID[id.Partition.Number] = in
		}
		if id.Scheduled {
			in.numbers = append(in.numbers, id.Number)
		} else {
			in.offsets = append(in.offsets, id.Number)
		}
	}
	return nil
}

// unixOf is a time in Unix nanoseconds, 0 for none.
func unixOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// deadPart is how far the work has come in one partition.
type deadPart struct {
	mq.PartitionID
	from uint64
	n    uint64 // messages that were moved, removed or counted
	err  error  // of the last call
	done bool
	// chosen is the page that was sent so often and not answered.
	chosen *mqpb.DeadLettersResponse
	sent   int
}

// askDead is one control call about dead letters.
type askDead func(context.Context, *Gateway, mq.PartitionID, func(context.Context, mqpb.LogNodeClient) (*mqpb.DeadLettersResponse, error)) (*mqpb.DeadLettersResponse, error)

// workOnDead goes through the partitions, and once more, with patience, through those whose leaders could not answer. An
// error is answered only if nothing was done; else the answer says what was, and which partition failed.
func (g *Gateway) workOnDead(ctx context.Context, w *deadWork) error {
	parts := w.parts()
	for _, ask := range []askDead{onceFromLeader[*mqpb.DeadLettersResponse], fromLeader[*mqpb.DeadLettersResponse]} {
		for _, p := range parts {
			if w.left == 0 || ctx.Err() != nil {
				break
			}
			if !p.done && (p.err == nil || mqerr.Is(p.err, mqerr.NoLeader)) {
				p.err = g.deadOf(ctx, w, p, ask)
				p.done = p.err == nil
			}
		}
	}
	failed := w.sum(parts)
	if last := w.due(); w.out.Messages > 0 && last > 0 && !w.out.DryRun {
		w.out.ReadyBy = g.clock.now().Add(last - w.interval).UTC()
	}
	return failed
}

// sum fills in what became of the partitions; an error if all that was asked of failed and nothing was done.
func (w *deadWork) sum(parts []*deadPart) (failed error) {
	w.out.Partitions = []api.DeadPartition{}
	asked, errs := 0, 0
	for _, p := range parts {
		if p.err == nil && !p.done {
			w.out.More = true
			continue
		}
		asked++
		one := api.DeadPartition{Partition: p.Number, Messages: p.n}
		if p.err != nil {
			errs++
			failed, w.out.Partial, one.Error = p.err, true, api.ItemErrorOf(p.err)
		}
		if p.n > 0 || p.err != nil {
			w.out.Partitions = append(w.out.Partitions, one)
		}
	}
	if w.out.Messages == 0 && errs > 0 && errs == asked {
		return failed
	}
	return nil
}

// due is when the next message is due by the rate, from now.
func (w *deadWork) due() time.Duration { return time.Duration(w.out.Messages) * w.interval }

// filterIn is the filter for one partition: with the ids that are there.
func (w *deadWork) filterIn(partition uint32) *mqpb.DeadFilter {
	if w.byID == nil {
		return w.filter
	}
	f, in := w.filter, w.byID[partition]
	return &mqpb.DeadFilter{Reason: f.Reason, Since: f.Since, Before: f.Before, ByKey: f.ByKey, Key: f.Key,
		ByOffset: true, Offsets: ascending(in.offsets), Numbers: ascending(in.numbers)}
}

// parts are the partitions that the work is about.
func (w *deadWork) parts() (out []*deadPart) {
	for _, p := range allPartitions(w.topic) {
		if w.byID == nil || w.byID[p.Number] != nil {
			out = append(out, &deadPart{PartitionID: p})
		}
	}
	return out
}

// deadOf works on one partition, page after page.
func (g *Gateway) deadOf(ctx context.Context, w *deadWork, p *deadPart, ask askDead) error {
	req := &mqpb.DeadLettersRequest{Partition: mqpb.FromPartition(p.PartitionID), Group: uint64(w.group), Filter: w.filterIn(p.Number), Act: w.act, Interval: int64(w.interval)}
	for {
		page := min(w.left, deadPage)
		if w.interval > 0 {
			page = min(page, uint64(max(0, mostSpread-w.due())/w.interval))
		}
		if page == 0 {
			w.out.More = true
			return nil
		}
		req.From, req.Limit, req.Delay = p.from, uint32(page), int64(w.due())
		r, n, err := g.deadPage(ctx, w, p, req, ask)
		if err != nil {
			return err
		}
		p.n += n
		w.left -= min(w.left, n)
		w.out.Messages += n
		p.from = r.GetNext()
		if !r.GetMore() {
			return nil
		}
		if ctx.Err() != nil {
			w.out.More = true
			return nil
		}
	}
}

// deadPage is one page of the work, and how many messages it was done to. The call may have to be sent again, when a leader is
// gone before it answers and what it did may have been done. Where a caller said how many, it is looked first which ones that are:
// what is sent again is about no others, and those are counted.
func (g *Gateway) deadPage(ctx context.Context, w *deadWork, p *deadPart, req *mqpb.DeadLettersRequest, ask askDead) (*mqpb.DeadLettersResponse, uint64, error) {
	send := func(req *mqpb.DeadLettersRequest, sent *int) (*mqpb.DeadLettersResponse, error) {
		return ask(ctx, g, p.PartitionID, func(ctx context.Context, c mqpb.LogNodeClient) (*mqpb.DeadLettersResponse, error) {
			*sent++
			return c.DeadLetters(ctx, req)
		})
	}
	looks := 0
	if !w.limited || w.act == "count" {
		r, err := send(req, &looks)
		return r, r.GetMatched(), err
	}
	if p.chosen == nil {
		look := proto.CloneOf(req)
		look.Act = "count"
		chosen, err := send(look, &looks)
		if err != nil || chosen.GetMatched() == 0 {
			return chosen, 0, err
		}
		p.chosen, p.sent = chosen, 0
	}
	req.To = p.chosen.GetNext()
	r, err := send(req, &p.sent)
	req.To = 0
	if err != nil {
		return nil, 0, err
	}
	n, chosen := r.GetMatched(), p.chosen
	if p.chosen = nil; p.sent > 1 {
		n = max(n, chosen.GetMatched())
	}
	return chosen, n, nil
}
