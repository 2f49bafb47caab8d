package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/replay"
	"github.com/splashdam/splashdam/gateway/internal/router"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// oneOfMany bounds how long one leader is waited for while there are others to ask.
const oneOfMany = time.Second

// handed is one hand-over by a leader.
type handed struct {
	partition mq.PartitionID
	handover  uint64
	session   *router.Session
	frame.Received
}

// fetch asks one leader at a time for what is still missing, so that nothing is leased that nobody wants.
// An error is answered only if nothing came and no partition could be asked: what was handed over has to
// reach the caller.
func (r *receive) fetch(ctx context.Context, order []uint32) error {
	var last error
	failed := 0
	for _, n := range order {
		timeout := r.g.cfg.RequestTimeout
		if len(order) > 1 {
			timeout = min(timeout, oneOfMany)
		}
		if err := r.ask(ctx, n, timeout); err != nil {
			last = err
			failed++
			if e := asError(err); !e.Code.Retryable() || e.Code == mqerr.Cancelled {
				break
			}
		}
		if r.count >= r.max || r.bytes >= int(r.maxBytes) {
			break
		}
	}
	if r.count > 0 && ctx.Err() == nil || last == nil {
		return nil
	}
	if failed < len(order) && !final(last) {
		return nil // the partitions that answered had nothing
	}
	return last
}

// ask asks the leader of one partition.
func (r *receive) ask(ctx context.Context, n uint32, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	f := frame.Receive{Partition: mq.PartitionID{Topic: r.topic.ID, Number: n}, Group: r.group.ID, Max: r.max - r.count,
		MaxBytes: r.maxBytes - uint32(r.bytes), Lease: int64(r.lease), Consumer: r.consumer, Account: r.account,
		Member: r.member.name, Generation: r.member.owned.generation}
	stamp := r.g.waits.Stamp(r.topic.ID, r.group.ID, n)
	more := uint64(0) // after an error too: the question of the next second finds what is there
	defer func() { r.g.waits.Answered(r.topic.ID, r.group.ID, n, stamp, more) }()
	h := handed{partition: f.Partition}
	a, err := r.send(ctx, &f)
	if mqerr.Is(err, mqerr.NotMember) && r.member.name != "" {
		return nil // the leader knows of a newer assignment: it will show here, too
	}
	if err != nil {
		return err
	}
	h.handover, h.session = f.Handover, a.Session
	if err := h.Parse(a.Body); err != nil {
		return fmt.Errorf("a hand-over of partition %s: %w", f.Partition, err)
	}
	if len(h.Runs) == 0 {
		more = h.Ready // what was looked at had expired, or was not wanted
		return nil
	}
	for _, run := range h.Runs {
		r.count += run.Count
	}
	for _, c := range h.Chunks {
		r.bytes += len(c.Batch)
	}
	r.bytes = min(r.bytes, int(r.maxBytes))
	r.got = append(r.got, h)
	more = h.Ready
	return nil
}

// send sends a receive, and once more after the leader was told of the group.
func (r *receive) send(ctx context.Context, f *frame.Receive) (router.Answer, error) {
	f.Handover = r.g.handovers.Add(1)
	a, err := r.g.router.Receive(ctx, f)
	if !mqerr.Is(err, mqerr.GroupNotFound) {
		return a, err
	}
	if err := r.g.relearn(ctx, r.group, f.Partition); err != nil {
		return a, err
	}
	f.Handover = r.g.handovers.Add(1)
	return r.g.router.Receive(ctx, f)
}

// given says which message was handed over, and how.
type given struct {
	id     mq.MessageID
	offset uint64
	stamp  int64 // Unix nanoseconds
	run    *frame.Run
}

// each calls f with every message that was handed over. The bytes of a message live as long as the answer.
func (r *receive) each(f func(h *handed, m *mq.Message, at *given)) error {
	for i := range r.got {
		h := &r.got[i]
		n := uint32(0)
		for j := range h.Chunks {
			c := &h.Chunks[j]
			run := 0
			meant := 0
			err := r.chunk(c, func(m *mq.Message, offset uint64) error {
				at, ok := findRun(h.Runs, offset, run)
				if !ok {
					return fmt.Errorf("offset %d is in no run", offset)
				}
				run = at
				n++
				f(h, m, &given{c.ID(h.partition, meant, offset), offset, c.Stamp, &h.Runs[at]})
				meant++
				return nil
			})
			if err != nil {
				return fmt.Errorf("a hand-over of partition %s: %w", h.partition, err)
			}
		}
		want := uint32(0)
		for _, run := range h.Runs {
			want += run.Count
		}
		if n != want {
			return fmt.Errorf("a hand-over of partition %s has %d messages of %d", h.partition, n, want)
		}
	}
	return nil
}

// findRun finds the run of an offset, beginning where the last one was.
func findRun(runs []frame.Run, offset uint64, from int) (int, bool) {
	for i := range runs {
		at := (from + i) % len(runs)
		if x := &runs[at]; offset >= x.First && offset-x.First < uint64(x.Count) {
			return at, true
		}
	}
	return 0, false
}

// chunk calls f with the messages of a chunk that are meant, until it fails.
func (r *receive) chunk(c *frame.Chunk, f func(m *mq.Message, offset uint64) error) error {
	b, err := mq.ParseBatch(c.Batch)
	if err != nil {
		return err
	}
	body, err := r.g.packer.Body(&b, nil)
	if err != nil {
		return &unpackError{err}
	}
	if body == nil {
		body = []byte{} // a batch of empty values has them, which is not the same as none
	}
	next := 0
	var failed error
	err = b.Each(body, func(i int, m *mq.Message) bool {
		ordinal := uint64(i)
		switch {
		case len(c.Ordinals) == 0:
		case next == len(c.Ordinals):
			return false
		case c.Sliced:
			ordinal = uint64(c.Ordinals[next])
			next++
		case ordinal != uint64(c.Ordinals[next]):
			return true
		default:
			next++
		}
		failed = f(m, c.First+ordinal)
		return failed == nil
	})
	if err != nil {
		return err
	}
	return failed
}

// appendDeliveries appends all messages as api.Delivery, with sep between them.
func (r *receive) appendDeliveries(b []byte, sep byte) ([]byte, error) {
	signer := r.signer()
	first := true
	err := r.each(func(h *handed, m *mq.Message, at *given) {
		if !first {
			b = append(b, sep)
		}
		first = false
		b = r.appendDelivery(b, signer, h, m, at)
	})
	return b, err
}

func (r *receive) signer() *mq.ReceiptSigner { return mq.NewReceiptSigner(r.g.view.NewestSecret()) }

// appendDelivery appends one message as api.Delivery.
func (r *receive) appendDelivery(b []byte, signer *mq.ReceiptSigner, h *handed, m *mq.Message, at *given) []byte {
	receipt := r.receipt(h, at)
	b = appendMessage(append(b, '{'), at.id, m, where{at.offset, true, at.stamp, r.base64})
	b = append(b, `,"receipt":"`...)
	b = signer.AppendText(b, &receipt)
	b = append(b, `","fence":"`...)
	b = api.AppendFence(b, receipt.Segment, receipt.Counter)
	b = append(b, `","attempt":`...)
	b = strconv.AppendUint(b, uint64(at.run.Attempt), 10)
	b = append(b, `,"lease_expires_at":"`...)
	b = appendTime(b, h.LeaseUntil)
	return append(b, '"', '}')
}

// receipt is the receipt of one delivery, not signed yet.
func (r *receive) receipt(h *handed, at *given) mq.Receipt {
	return mq.Receipt{Partition: h.partition, Offset: at.offset, Group: r.group.ID,
		Generation: h.Generation, Segment: h.Segment, Counter: at.run.Counter + (at.offset - at.run.First)}
}

// answerRaw answers the one message as the body itself, so that a shell script can consume.
func (r *receive) answerRaw(c echo.Context) error {
	if r.count == 0 {
		return c.NoContent(http.StatusNoContent)
	}
	signer := r.signer()
	var answered error
	err := r.each(func(h *handed, m *mq.Message, at *given) {
		receipt := r.receipt(h, at)
		header := c.Response().Header()
		header.Set("Mq-Receipt", string(signer.AppendText(nil, &receipt)))
		header.Set("Mq-Fence", string(api.AppendFence(nil, receipt.Segment, receipt.Counter)))
		header.Set("Mq-Attempt", strconv.FormatUint(uint64(at.run.Attempt), 10))
		header.Set("Mq-Lease-Expires-At", string(appendTime(nil, h.LeaseUntil)))
		header.Set(echo.HeaderContentLength, strconv.Itoa(len(m.Value)))
		item := replay.Item{ID: at.id, Offset: at.offset, Message: *m, Stamp: at.stamp}
		answered = answerRaw(c, &item)
	})
	if err != nil {
		return err
	}
	return answered
}
