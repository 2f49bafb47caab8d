package gateway

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/gateway/internal/jsonscan"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// subscription is one group's messages on a socket. Its goroutine finds the group, says so, and delivers.
type subscription struct {
	s       *socket
	name    string
	account *account
	cancel  context.CancelFunc
	ended   []byte // the id of the unsubscribe that ends it; guarded by socket.mu
	left    bool   // an unsubscribe ends it; guarded by socket.mu
	buf     []byte
}

// subscribe checks a request and begins a subscription; whether there is such a topic shows later.
func (s *socket) subscribe(id []byte, req *api.SocketSubscribe) error {
	credit := defaultCredit
	if req.Credit != nil {
		credit = *req.Credit
	}
	var fields []mqerr.Field
	bad := func(ok bool, pointer, detail string) {
		if !ok {
			fields = append(fields, mqerr.Field{Pointer: pointer, Detail: detail})
		}
	}
	bad(req.Subscription != "" && len(req.Subscription) <= maxSubscription, "/subscription", "is a name of 1 to 64 bytes")
	for pointer, name := range map[string]string{"/topic": req.Topic, "/group": req.Group} {
		if err := mq.CheckName(name); err != nil {
			bad(false, pointer, err.Error())
		}
	}
	bad(credit >= 0 && credit <= maxCredit, "/credit", "must be 0 to 10000")
	bad(req.Max >= 0 && req.Max <= math.MaxInt32, "/max", "must be 0, for no bound, to 2147483647")
	bad(req.Lease == 0 || time.Duration(req.Lease) >= mq.MinLease && time.Duration(req.Lease) <= mq.MaxLease, "/lease", "must be 100ms to 12h")
	bad(len(req.Consumer) <= mq.MaxConsumerBytes, "/consumer", "has at most 255 bytes")
	bad(req.Member == "" || mq.CheckName(req.Member) == nil, "/member", "is no name of a member")
	bad(goodPartitions(req.Partitions), "/partitions", wantPartitions)
	bad(req.Encoding == "" || req.Encoding == api.EncodingUTF8 || req.Encoding == api.EncodingBase64, "/encoding", "must be utf8 or base64")
	if len(fields) > 0 {
		return &mqerr.Error{Code: mqerr.ValidationFailed, Detail: fields[0].Pointer + ": " + fields[0].Detail, Fields: fields}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.subscriptions[req.Subscription] != nil:
		return invalid("/subscription", "there is a subscription %q already", req.Subscription)
	case len(s.subscriptions) == maxSubscriptions:
		return invalid("/subscription", "a connection has at most %d subscriptions", maxSubscriptions)
	}
	r := receive{g: s.g, base64: req.Encoding == api.EncodingBase64}
	r.take(&api.ReceiveRequest{Max: 1, MaxBytes: feedBytes, Lease: req.Lease, Consumer: req.Consumer, Partitions: req.Partitions,
		Member: req.Member}, s.remote)
	sub := &subscription{s: s, name: req.Subscription, account: s.g.accounts.open(credit)}
	var ctx context.Context
	ctx, sub.cancel = context.WithCancel(s.ctx)
	s.subscriptions[sub.name] = sub
	id = append([]byte(nil), id...)
	topic, group, most := req.Topic, req.Group, req.Max
	s.work.Go(func() { sub.run(ctx, id, &r, topic, group, most) })
	return nil
}

// run is a subscription's life: most messages in all, or with 0 as many as there are.
func (sub *subscription) run(ctx context.Context, id []byte, r *receive, topic, group string, most int) {
	s := sub.s
	defer sub.cancel()
	defer r.release()
	full := false
	err := asFields(r.find(ctx, topic, group))
	if err == nil {
		err = s.write(append(sub.head(api.FrameSubscribed, id), '}'))
	}
	if err == nil {
		id = nil // answered
		f := &feed{g: s.g, r: *r, account: sub.account, most: most, send: sub.messages, alive: func() error { return nil }}
		err = f.run(ctx)
		full = err == nil && f.full()
	} else {
		s.g.accounts.close(sub.account)
	}
	s.mu.Lock()
	delete(s.subscriptions, sub.name)
	left, ended := sub.left, sub.ended
	s.mu.Unlock()
	switch {
	case left, full:
		_ = s.write(append(sub.head(api.FrameUnsubscribed, ended), '}')) // a failure ends the connection
	case err != nil && !errors.Is(err, context.Canceled):
		s.fail(id, sub.name, err)
	}
}

// asFields names a field of the frame where the same error of a request names a part of its path.
func asFields(err error) error {
	var e *mqerr.Error
	if !errors.As(err, &e) || len(e.Fields) == 0 {
		return err
	}
	out := *e
	out.Fields = slices.Clone(e.Fields)
	for i := range out.Fields {
		f := &out.Fields[i]
		if name, ok := strings.CutPrefix(f.Pointer, "path/"); ok {
			out.Detail = strings.ReplaceAll(out.Detail, f.Pointer, "/"+name)
			out.Code, f.Pointer = mqerr.ValidationFailed, "/"+name
		}
	}
	return &out
}

func (sub *subscription) head(kind string, id []byte) []byte {
	b := appendFrame(sub.buf[:0], kind, id)
	return jsonscan.AppendString(append(b, `,"subscription":`...), sub.name)
}

// messages writes one frame.
func (sub *subscription) messages(all [][]byte) error {
	b := append(sub.head(api.FrameMessages, nil), `,"messages":[`...)
	for i, m := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, m...)
	}
	b = append(b, ']', '}')
	err := sub.s.write(b)
	if sub.buf = b; cap(b) > 2*pieceBytes {
		sub.buf = nil // one large message should not stay with a subscription that rests
	}
	return err
}

func (s *socket) subscription(name string) (*subscription, error) {
	sub := s.subscriptions[name]
	if sub == nil {
		return nil, invalid("/subscription", "there is no subscription %.64q", name)
	}
	return sub, nil
}

// credit changes how many messages of a subscription may be out.
func (s *socket) credit(req *api.SocketCredit) error {
	if req.Credit < 0 || req.Credit > maxCredit {
		return invalid("/credit", "must be 0 to %d", maxCredit)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, err := s.subscription(req.Subscription)
	if err == nil {
		sub.account.setCredit(req.Credit)
	}
	return err
}

// unsubscribe ends a subscription, which answers when it has ended.
func (s *socket) unsubscribe(id []byte, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub, err := s.subscription(name)
	if err == nil && !sub.left {
		sub.left, sub.ended = true, append([]byte(nil), id...)
		sub.cancel()
	}
	return err
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
