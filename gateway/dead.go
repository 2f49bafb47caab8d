package gateway

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/strictjson"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
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
		{http.MethodGet, group + "/dead", g.handleDeadMessages, []string{"partition", "limit", "cursor", "reason", "died_after", "died_before"}},
		{http.MethodDelete, group + "/dead", g.handleDeleteDead, []string{"reason", "key", "died_after", "died_before", "ids", "limit", "dry_run"}},
		{http.MethodPost, group + "/redrive", g.handleRedrive, []string{"dry_run"}},
		{http.MethodPost, group + "/seek", g.handleSeek, []string{"dry_run"}},
		{http.MethodPost, group + "/snapshots", g.handleCreateSnapshot, nil},
		{http.MethodGet, group + "/snapshots", g.handleListSnapshots, nil},
		{http.MethodGet, group + "/snapshots/:snapshot", g.handleGetSnapshot, nil},
		{http.MethodDelete, group + "/snapshots/:snapshot", g.handleDeleteSnapshot, nil},
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
	out      api.DeadResult
}

// deadIDs are the messages of one partition that a caller named: by offset, and those that were scheduled by number.
type deadIDs struct{ offsets, numbers []uint64 }

// handleRedrive makes dead letters ready again, for the same group.
func (g *Gateway) handleRedrive(c echo.Context) error {
	body, err := g.configBody(c)
	if err != nil {
		return err
	}
	req := api.RedriveRequest{Filter: unsaidFilter(), Limit: unsaidLimit}
	if len(body) > 0 {
		if err := strictjson.Decode(body, &req); err != nil {
			return err
		}
	}
	if req.Rate != 0 && !(req.Rate >= minRate && req.Rate <= maxRate) {
		return validation(mq.FieldError{Pointer: "/rate", Detail: fmt.Sprintf("must be %g to %d messages a second", minRate, maxRate)})
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
	if w.left == 0 {
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
	if err := g.workOnDead(ctx, w); err != nil {
		return err
	}
	status := http.StatusOK
	if w.out.Partial {
		status = http.StatusMultiStatus
	}
	return answerJSON(c, status, w.out)
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
	case len(f.IDs) > api.MaxDeadIDs:
		return bad("ids", "names at most %d messages", api.MaxDeadIDs)
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

// workOnDead goes through the partitions. An error is answered only if nothing was done; else the answer says what was,
// and which partition failed.
func (g *Gateway) workOnDead(ctx context.Context, w *deadWork) error {
	w.out.Partitions = []api.DeadPartition{}
	var failed error
	asked, errs := 0, 0
	for _, p := range allPartitions(w.topic) {
		if w.byID != nil && w.byID[p.Number] == nil {
			continue
		}
		if w.left == 0 || ctx.Err() != nil {
			w.out.More = true
			break
		}
		asked++
		n, err := g.deadOf(ctx, w, p)
		one := api.DeadPartition{Partition: p.Number, Messages: n}
		if err != nil {
			errs++
			failed, w.out.Partial, one.Error = err, true, api.ItemErrorOf(err)
		}
		if n > 0 || err != nil {
			w.out.Partitions = append(w.out.Partitions, one)
		}
	}
	if w.out.Messages == 0 && errs > 0 && errs == asked {
		return failed
	}
	if last := w.due(); w.out.Messages > 0 && last > 0 && !w.out.DryRun {
		w.out.ReadyBy = time.Now().Add(last - w.interval).UTC()
	}
	return nil
}

// due is when the next message is due by the rate, from now.
func (w *deadWork) due() time.Duration { return time.Duration(w.out.Messages) * w.interval }

// deadOf works on one partition, page after page, and says how many messages it moved or removed.
func (g *Gateway) deadOf(ctx context.Context, w *deadWork, p mq.PartitionID) (n uint64, err error) {
	filter := w.filter
	if w.byID != nil {
		filter = &mqpb.DeadFilter{Reason: filter.Reason, Since: filter.Since, Before: filter.Before, ByKey: filter.ByKey, Key: filter.Key,
			ByOffset: true, Offsets: ascending(w.byID[p.Number].offsets), Numbers: ascending(w.byID[p.Number].numbers)}
	}
	req := &mqpb.DeadLettersRequest{Partition: mqpb.FromPartition(p), Group: uint64(w.group), Filter: filter, Act: w.act, Interval: int64(w.interval)}
	for {
		page := min(w.left, deadPage)
		if w.interval > 0 {
			page = min(page, uint64(max(0, mostSpread-w.due())/w.interval))
		}
		if page == 0 {
			w.out.More = true
			return n, nil
		}
		req.Limit, req.Delay = uint32(page), int64(w.due())
		client, err := g.router.Control(p)
		if err != nil {
			return n, err
		}
		r, err := client.DeadLetters(ctx, req)
		if err != nil {
			return n, controlError(g.leaderOf(p), err)
		}
		n += r.GetMatched()
		w.left -= min(w.left, r.GetMatched())
		w.out.Messages += r.GetMatched()
		if !r.GetMore() {
			return n, nil
		}
		if req.From = r.GetNext(); ctx.Err() != nil {
			w.out.More = true
			return n, nil
		}
	}
}
