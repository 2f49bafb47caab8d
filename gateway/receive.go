package gateway

import (
	"context"
	"errors"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/strictjson"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	defaultMax      = 10
	defaultMaxBytes = 4 << 20
	// mostMaxBytes keeps an answer of a leader below what a frame may hold; one message comes whatever its size.
	mostMaxBytes   = 16 << 20
	maxReceiveBody = 64 << 10
)

// receive is one call of POST /v1/topics/{t}/groups/{g}/receive.
type receive struct {
	g     *Gateway
	topic meta.Topic
	group meta.Group

	max, maxBytes uint32
	wait          time.Duration
	lease         time.Duration // 0: the group's
	consumer      string
	account       uint64   // a stream's, see accounts; 0 for a call
	only          []uint32 // partitions, nil for all
	member        membership

	raw, base64, lines bool // forms of the answer

	got   []handed // what leaders have handed over; confirmed or returned before the call ends
	count uint32
	bytes int
}

// handleReceive leases messages to the caller, waiting for some if it wants that.
func (g *Gateway) handleReceive(c echo.Context) error {
	r, err := g.newReceive(c)
	if err != nil {
		return err
	}
	defer r.release()
	ctx := c.Request().Context()
	if err := r.collect(ctx); err != nil {
		r.giveBack()
		return err
	}
	return r.answer(c)
}

func (g *Gateway) newReceive(c echo.Context) (*receive, error) {
	topic, err := pathName(c, "topic")
	if err != nil {
		return nil, err
	}
	group, err := pathName(c, "group")
	if err != nil {
		return nil, err
	}
	r := &receive{g: g}
	if err := r.parse(c); err != nil {
		return nil, err
	}
	if err := r.find(c.Request().Context(), topic, group); err != nil {
		return nil, err
	}
	return r, nil
}

// find fills in the topic and the group, which is made if there is none.
func (r *receive) find(ctx context.Context, topic, group string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, r.g.cfg.RequestTimeout)
	defer cancel()
	if r.topic, err = r.g.knownTopic(ctx, topic); err != nil {
		return err
	}
	for _, p := range r.only {
		if p >= r.topic.Settings.Partitions {
			return mqerr.New(mqerr.PartitionNotFound, "topic %s has the partitions 0 to %d, not %d", topic, r.topic.Settings.Partitions-1, p)
		}
	}
	if r.group, err = r.g.groupToUse(ctx, r.topic, group); err != nil {
		return err
	}
	if _, secret := r.g.view.NewestSecret(); secret == nil {
		return mqerr.New(mqerr.MetadataUnavailable, "the cluster has no secrets yet")
	}
	return r.admit(ctx)
}

// parse reads the body and the query.
func (r *receive) parse(c echo.Context) error {
	in, err := r.g.readBody(c, maxReceiveBody, bodyTooLarge(maxReceiveBody))
	if err != nil {
		return err
	}
	defer in.release()
	req := api.ReceiveRequest{Max: defaultMax, MaxBytes: defaultMaxBytes}
	if len(in.b) > 0 {
		if err := utf8Only(c.Request().Header); err != nil {
			return err
		}
		if err := strictjson.Decode(in.b, &req); err != nil {
			return err
		}
	}
	most, err := queryInt(c, "max", int64(req.Max), 1, mq.MaxBatchMessages)
	if err != nil {
		return err
	}
	wait, err := queryDuration(c, "wait", time.Duration(req.Wait), 0, mq.MaxWait)
	if err != nil {
		return err
	}
	req.Max, req.Wait = int(most), mq.Duration(wait)
	if err := checkReceive(&req); err != nil {
		return err
	}
	r.take(&req, c.RealIP())
	return r.parseForm(c)
}

// take takes over a request that was checked.
func (r *receive) take(req *api.ReceiveRequest, remote string) {
	r.max, r.maxBytes = uint32(req.Max), uint32(min(req.MaxBytes, mostMaxBytes))
	r.wait, r.lease, r.consumer = time.Duration(req.Wait), time.Duration(req.Lease), req.Consumer
	if len(req.Partitions) > 0 {
		r.only = req.Partitions
	}
	r.member.name = req.Member
	if r.consumer == "" {
		r.consumer = req.Member
	}
	if r.consumer == "" {
		r.consumer = remote
	}
}

const wantPartitions = "names 1 to 1024 partitions: leave it out for all"

// goodPartitions says whether a caller may ask for these only. nil is all; an empty list is mostly one that somebody's
// program found nothing for, and must not become all.
func goodPartitions(p []uint32) bool { return p == nil || len(p) > 0 && len(p) <= mq.MaxPartitions }

func checkReceive(req *api.ReceiveRequest) error {
	var fields []mqerr.Field
	bad := func(ok bool, pointer, detail string) {
		if !ok {
			fields = append(fields, mqerr.Field{Pointer: pointer, Detail: detail})
		}
	}
	bad(req.Max >= 1 && req.Max <= mq.MaxBatchMessages, "/max", "must be 1 to 10000")
	bad(req.MaxBytes >= 1 && req.MaxBytes <= mq.MaxBatchBytes, "/max_bytes", "must be 1 to 33554432")
	bad(req.Wait >= 0 && time.Duration(req.Wait) <= mq.MaxWait, "/wait", "must be 0s to 30s")
	bad(req.Lease == 0 || time.Duration(req.Lease) >= mq.MinLease && time.Duration(req.Lease) <= mq.MaxLease, "/lease", "must be 100ms to 12h")
	bad(len(req.Consumer) <= mq.MaxConsumerBytes, "/consumer", "has at most 255 bytes")
	bad(req.Member == "" || mq.CheckName(req.Member) == nil, "/member", "is no name of a member")
	bad(goodPartitions(req.Partitions), "/partitions", wantPartitions)
	if len(fields) == 0 {
		return nil
	}
	return &mqerr.Error{Code: mqerr.ValidationFailed, Detail: fields[0].Pointer + ": " + fields[0].Detail, Fields: fields}
}

// parseForm says how the answer is to be written.
func (r *receive) parseForm(c echo.Context) (err error) {
	if r.raw, err = queryBool(c, "raw"); err != nil {
		return err
	}
	if r.raw && r.max != 1 {
		if c.QueryParam("max") != "" || r.max != defaultMax {
			return badParameter("query/raw", "an answer that is the message itself holds one: max must be 1")
		}
		r.max = 1
	}
	if r.base64, err = queryEncoding(c); err != nil {
		return err
	}
	for _, part := range strings.Split(c.Request().Header.Get(echo.HeaderAccept), ",") {
		if kind, _, err := mime.ParseMediaType(part); err == nil && kind == ndjson {
			r.lines = true
		}
	}
	return nil
}

// collect gets messages, at once or as soon as there are any while the caller wants to wait. In a group whose
// partitions have owners the waiting follows what the member owns.
func (r *receive) collect(ctx context.Context) error {
	if r.wait == 0 {
		if err := r.follow(); err != nil {
			return err
		}
		return r.fetch(ctx, r.order())
	}
	deadline := time.NewTimer(r.wait)
	defer deadline.Stop()
	for {
		if err := r.follow(); err != nil {
			return err
		}
		moved, err := r.collectUntil(ctx, deadline.C)
		if !moved {
			return err
		}
	}
}

// collectUntil waits for messages of r.only. moved says that a new assignment came first.
func (r *receive) collectUntil(ctx context.Context, deadline <-chan time.Time) (moved bool, err error) {
	w, err := r.g.waits.Join(ctx, r.topic.ID, r.group.ID, r.topic.Settings.Partitions, r.only)
	if err != nil {
		return false, err
	}
	defer w.Leave()
	// What became ready before the place in the queue was taken has woken nobody: ask once for all.
	err = r.fetch(ctx, r.order())
	for r.count == 0 && !final(err) {
		w.Park()
		select {
		case <-w.Woken():
			err = r.fetch(ctx, []uint32{w.Hint()})
		case <-r.member.owned.changed: // never in shared groups
			return true, nil
		case <-deadline:
			if err == nil {
				return false, nil
			}
			// What went wrong may be long over, and a partition that has nothing ready wakes nobody: ask once more.
			ctx, cancel := context.WithTimeout(ctx, oneOfMany)
			defer cancel()
			return false, r.fetch(ctx, r.order())
		case <-w.Gone():
			return false, r.gone()
		case <-r.g.draining:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return false, err
}

// final says whether waiting makes no sense after err: what may pass is waited out.
func final(err error) bool {
	if err == nil {
		return false
	}
	e := asError(err)
	return !e.Code.Retryable() || e.Code == mqerr.Cancelled
}

func (r *receive) order() []uint32 {
	return r.g.waits.Order(r.topic.ID, r.group.ID, r.topic.Settings.Partitions, r.only, make([]uint32, 0, 8))
}

// answer writes what was handed over, and confirms it when the caller has it; else it is given back.
func (r *receive) answer(c echo.Context) error {
	if r.g.isDraining() {
		c.Response().Header().Set("Connection", "close") // the next one goes to another gateway
	}
	var err error
	switch {
	case r.count > 0 && callerGone(c.Request().Context()):
		err = mqerr.New(mqerr.Cancelled, "")
	case r.raw:
		err = r.answerRaw(c)
	default:
		err = r.answerJSON(c)
	}
	if err == nil && r.count > 0 {
		// Without a flush the end of the answer waits in a buffer whose fate nobody would see.
		err = http.NewResponseController(c.Response().Writer).Flush()
		if errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}
	// The context is not asked any more: a caller that closes its connection as soon as it has the answer (curl
	// does) ends it too, and what that one was given must not go to somebody else.
	if err != nil {
		return r.undo(err)
	}
	for i := range r.got {
		h := &r.got[i]
		// On an ended stream there is nobody to tell: the node took back what was not confirmed.
		_ = h.session.Confirm(h.partition, r.group.ID, h.handover)
	}
	r.g.metrics.received.Add(float64(r.count))
	return nil
}

func (r *receive) answerJSON(c echo.Context) error {
	buf := packed.Get().(*[]byte)
	b := (*buf)[:0]
	defer func() {
		if cap(b) <= mostKept {
			*buf = b
			packed.Put(buf)
		}
	}()
	var err error
	kind := echo.MIMEApplicationJSON
	if r.lines {
		kind = ndjson
		b, err = r.appendDeliveries(b, '\n')
		if err == nil && r.count > 0 {
			b = append(b, '\n')
		}
	} else {
		b = append(b, `{"messages":[`...)
		b, err = r.appendDeliveries(b, ',')
		b = append(b, "]}\n"...)
	}
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderContentLength, strconv.Itoa(len(b)))
	return r.g.blob(c, http.StatusOK, kind, b)
}

func callerGone(ctx context.Context) bool {
	conn, ok := ctx.Value(connKey{}).(net.Conn)
	return ctx.Err() != nil || ok && hungUp(conn)
}

// giveBack returns what was handed over, uncounted.
func (r *receive) giveBack() {
	for i := range r.got {
		h := &r.got[i]
		_ = h.session.Return(h.partition, r.group.ID, h.handover, nil) // see answer
		r.g.metrics.returned.Inc()
	}
	r.got, r.count = nil, 0
}

func (g *Gateway) isDraining() bool {
	select {
	case <-g.draining:
		return true
	default:
		return false
	}
}
