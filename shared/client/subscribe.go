package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// SubscribeOptions say how messages are streamed; the zero value takes the server's defaults.
type SubscribeOptions struct {
	// MaxInFlight is how many messages may be out and not settled, 1 to 10,000; 0: 16. When the
	// process dies all of them have used up an attempt.
	MaxInFlight int
	// Max ends the pairs after so many messages, and no other ones are leased; 0: no bound.
	Max int
	// Lease is how long each message is leased; 0: the group's setting.
	Lease time.Duration
	// Name is shown in traces. Default: the caller's address.
	Name string
	// Partitions are those to take from; nil: all; an empty list is refused.
	Partitions []uint32
	// Member is who subscribes in an assigned group; it must have joined. A Consumer with Member does that.
	Member string
}

// path is what is asked for when so many messages have come already.
func (o *SubscribeOptions) path(topic, group string, have int) string {
	q := url.Values{}
	if o.Max > 0 {
		q.Set("max", strconv.Itoa(o.Max-have))
	}
	if o.MaxInFlight > 0 {
		q.Set("max_in_flight", strconv.Itoa(o.MaxInFlight))
	}
	if o.Lease > 0 {
		q.Set("lease", o.Lease.String())
	}
	if o.Name != "" {
		q.Set("consumer", o.Name)
	}
	if o.Member != "" {
		q.Set("member", o.Member)
	}
	if o.Partitions != nil {
		var b []byte
		for i, p := range o.Partitions {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendUint(b, uint64(p), 10)
		}
		q.Set("partitions", string(b))
	}
	return withQuery(pathOf("topics", topic, "groups", group, "stream"), q)
}

// streamSilence is how long a stream may say nothing: the server says that it lives every 15 s, and two of these are missing.
// A silent gateway is mostly found out sooner, see guard; this is for what stands before it and answers in its stead.
const streamSilence = 35 * time.Second

// maxEvent bounds one line of a stream: a message of 16 MiB in base64.
const maxEvent = 64 << 20

// Subscribe streams messages of a group as they come, each leased like one of Receive; settle them as they are done, and
// more come. A stream that breaks, falls silent or is asked to move is opened again, at another server if there is one.
// The pairs end with the context, or with an error that no repeating mends (the topic is gone), which is the last pair. What
// was on its way to a caller that wants no more is given back, uncounted.
func (c *Client) Subscribe(ctx context.Context, topic, group string, o SubscribeOptions) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		pauses := c.retry.pauses()
		have := 0
		for ctx.Err() == nil {
			base := c.servers.current()
			s := &subscription{topic: topic, wanted: ctx, yield: yield, most: o.Max - have}
			err := s.stream(ctx, c, base, o.path(topic, group, have))
			have += s.got
			c.giveBack(ctx, c.Settle, s.left)
			switch {
			case s.stopped || ctx.Err() != nil:
				return
			case final4xx(err):
				yield(Delivery{}, err)
				return
			case s.got > 0:
				pauses.Reset()
			}
			c.servers.leave(base)
			pause := pauses.NextBackOff()
			if s.moved {
				pause = c.retry.Initial // asked to go elsewhere, where nothing is wrong
			} else {
				c.trouble.Store(noAnswer)
				c.log.Warn("a stream ended, opening it again", "topic", topic, "group", group, "err", err)
			}
			if !sleep(ctx, pause) {
				return
			}
		}
	}
}

// subscription is one opened stream.
type subscription struct {
	topic   string
	wanted  context.Context // the caller's
	yield   func(Delivery, error) bool
	most    int        // messages that are wanted; 0 or less: no bound
	got     int        // messages that came
	moved   bool       // the server asked to connect elsewhere
	stopped bool       // the caller wants no more
	left    []Delivery // came when it wanted no more
}

// over says whether the caller wants no more.
func (s *subscription) over() bool { return s.stopped || s.wanted.Err() != nil }

// stream opens one stream and reads it to its end. Once no more is wanted, what is on its way is read still.
func (s *subscription) stream(ctx context.Context, c *Client, base, path string) error {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	last := newLastWords(s.wanted, func() { cancel(context.Canceled) })
	defer last.stop()
	silence := time.AfterFunc(streamSilence, func() { cancel(ErrSilent) })
	defer silence.Stop()
	q := &call{method: http.MethodGet, path: path, header: http.Header{"Accept": {"text/event-stream"}}, quiet: waitSilence}
	answer, _, err := c.once(ctx, base, q)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(make([]byte, 0, 16<<10), maxEvent)
	event, data := "", ""
	for ctx.Err() == nil && (!s.over() || last.more()) && lines.Scan() {
		silence.Stop() // while the caller works it does not read
		line := lines.Text()
		if line == "" {
			if data != "" {
				last.busy.Store(true)
				if err := s.event(event, data); err != nil || s.moved {
					return err
				}
				last.busy.Store(false)
			}
			event, data = "", ""
		}
		switch name, value, _ := strings.Cut(line, ": "); name {
		case "event":
			event = value
		case "data":
			data = value
		}
		silence.Reset(streamSilence)
	}
	switch err := lines.Err(); {
	case context.Cause(ctx) == ErrSilent:
		return ErrSilent
	case err != nil:
		return fmt.Errorf("client: %w", err)
	}
	return fmt.Errorf("client: the stream broke off: %w", io.ErrUnexpectedEOF)
}

// event takes one event.
func (s *subscription) event(name, data string) error {
	switch name {
	case "message":
		var m api.Delivery
		var d Delivery
		err := json.Unmarshal([]byte(data), &m)
		if err == nil {
			err = d.fill(s.topic, &m)
		}
		if err != nil {
			return fmt.Errorf("client: a message of the stream can't be read: %w", err)
		}
		if s.over() {
			s.left = append(s.left, d)
			break
		}
		s.got++
		s.stopped = !s.yield(d, nil) || s.got == s.most
	case "reconnect":
		s.moved = true
	case "error":
		var e struct {
			Error *api.ItemError `json:"error"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil || e.Error == nil {
			return fmt.Errorf("client: the stream ended with %.200q", data)
		}
		return lateError(e.Error)
	}
	return nil
}
