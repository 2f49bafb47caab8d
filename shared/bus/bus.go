// Package bus carries hints between processes over the coordinators' NATS: "there is something ready" to
// gateways, and "look now" to the controller. A hint may be lost, doubled or late; whoever uses one also has a
// slower way to find out. Nothing here fails or blocks its callers.
package bus

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// coalesce is how long wake-ups of a topic are gathered before they are published.
	coalesce = 2 * time.Millisecond
	// maxPending bounds the pairs that wait to be published, over all topics; what is more is dropped.
	maxPending = 64 << 10

	lookSubject = "controller.look"
	wakeSubject = "wake."
)

// ErrNotConnected says that no NATS server is connected now.
var ErrNotConnected = errors.New("bus: not connected")

// Bus is one process's connection. Safe for use by many goroutines.
type Bus struct {
	view *meta.View
	name string
	log  *slog.Logger

	cancel context.CancelFunc
	done   sync.WaitGroup
	kick   chan struct{} // capacity 1: pending is no longer empty

	mu      sync.Mutex
	nc      *nats.Conn // nil until the first address is known
	closed  bool
	subs    map[string]*subscription
	pending map[mq.TopicID]map[Pair]struct{}
	waiting int // pairs in pending
}

// subscription is one subject with everyone here who wants it.
type subscription struct {
	sub      *nats.Subscription // nil while there is no connection
	next     int
	handlers map[int]func([]byte)
}

// Connect makes a bus that finds NATS addresses in the view's coordinators and connects in the background, for
// ever. name is shown in the server's list of connections.
func Connect(view *meta.View, name string, log *slog.Logger) *Bus {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Bus{
		view: view, name: name, log: log, cancel: cancel, kick: make(chan struct{}, 1),
		subs: map[string]*subscription{}, pending: map[mq.TopicID]map[Pair]struct{}{},
	}
	b.done.Add(2)
	go func() {
		defer b.done.Done()
		b.follow(ctx)
	}()
	go func() {
		defer b.done.Done()
		b.publish(ctx)
	}()
	return b
}

// Close ends the connection and waits for the bus's goroutines. What is still pending is dropped.
func (b *Bus) Close() {
	b.cancel()
	b.done.Wait()
	b.mu.Lock()
	b.closed = true
	nc := b.nc
	b.mu.Unlock()
	if nc != nil {
		nc.Close()
	}
}

// Connected says whether a server is connected now.
func (b *Bus) Connected() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nc != nil && b.nc.IsConnected()
}

// Flush returns when the server has seen everything that was subscribed and published before, or fails at
// once if there is no connection.
func (b *Bus) Flush(ctx context.Context) error {
	b.mu.Lock()
	nc := b.nc
	b.mu.Unlock()
	if nc == nil || !nc.IsConnected() {
		return ErrNotConnected
	}
	return nc.FlushWithContext(ctx)
}

// Look asks the controller to look at the cluster now instead of later. reason is for its log.
func (b *Bus) Look(reason string) {
	b.send(lookSubject, []byte(reason))
}

// SubscribeLook calls handle for each Look of anyone; it must not block. cancel ends that.
func (b *Bus) SubscribeLook(handle func(reason string)) (cancel func()) {
	return b.subscribe(lookSubject, func(data []byte) { handle(strings.ToValidUTF8(string(data[:min(len(data), 256)]), "?")) })
}

// PublishWake says that partitions of a topic have something ready for groups. Wake-ups are gathered for 2 ms.
func (b *Bus) PublishWake(topic mq.TopicID, pairs ...Pair) {
	b.mu.Lock()
	defer b.mu.Unlock()
	set := b.pending[topic]
	if set == nil {
		set = make(map[Pair]struct{}, len(pairs))
		b.pending[topic] = set
	}
	for _, p := range pairs {
		if _, ok := set[p]; !ok && b.waiting < maxPending {
			set[p] = struct{}{}
			b.waiting++
		}
	}
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// SubscribeWake calls handle with the wake-ups of a topic; it must not block. Many may subscribe to the same topic
// for the price of one. cancel ends it. Call Flush before looking for what is ready, so that nothing falls between.
func (b *Bus) SubscribeWake(topic mq.TopicID, handle func([]Pair)) (cancel func()) {
	return b.subscribe(wakeSubject+strconv.FormatUint(uint64(topic), 10), func(data []byte) {
		pairs, err := parseWake(data)
		if err != nil {
			b.log.Warn("a wake-up can't be read", "topic", topic, "err", err)
			return
		}
		handle(pairs)
	})
}

func (b *Bus) subscribe(subject string, handle func([]byte)) (cancel func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.subs[subject]
	if s == nil {
		s = &subscription{handlers: map[int]func([]byte){}}
		b.subs[subject] = s
		b.attach(subject, s)
	}
	id := s.next
	s.next++
	s.handlers[id] = handle
	return sync.OnceFunc(func() { b.unsubscribe(subject, s, id) })
}

func (b *Bus) unsubscribe(subject string, s *subscription, id int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(s.handlers, id)
	if len(s.handlers) > 0 {
		return
	}
	delete(b.subs, subject)
	if s.sub != nil && !b.closed {
		if err := s.sub.Unsubscribe(); err != nil {
			b.log.Debug("unsubscribing", "subject", subject, "err", err)
		}
	}
}

// attach subscribes at the server if there is a connection; the caller holds b.mu.
func (b *Bus) attach(subject string, s *subscription) {
	if b.nc == nil || b.closed {
		return
	}
	sub, err := b.nc.Subscribe(subject, func(m *nats.Msg) {
		b.mu.Lock()
		handlers := make([]func([]byte), 0, len(s.handlers))
		for _, h := range s.handlers {
			handlers = append(handlers, h)
		}
		b.mu.Unlock()
		for _, h := range handlers {
			h(m.Data)
		}
	})
	if err != nil {
		b.log.Warn("subscribing", "subject", subject, "err", err)
		return
	}
	s.sub = sub
}

// publish sends what is pending, 2 ms after the first of it.
func (b *Bus) publish(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.kick:
		}
		timer.Reset(coalesce)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		b.mu.Lock()
		pending := b.pending
		b.pending, b.waiting = map[mq.TopicID]map[Pair]struct{}{}, 0
		b.mu.Unlock()
		for topic, set := range pending {
			b.sendWakes(topic, set)
		}
	}
}

func (b *Bus) sendWakes(topic mq.TopicID, set map[Pair]struct{}) {
	subject := wakeSubject + strconv.FormatUint(uint64(topic), 10)
	pairs := make([]Pair, 0, min(len(set), maxPairs))
	for p := range set {
		if pairs = append(pairs, p); len(pairs) == maxPairs {
			b.send(subject, appendWake(nil, pairs))
			pairs = pairs[:0]
		}
	}
	if len(pairs) > 0 {
		b.send(subject, appendWake(nil, pairs))
	}
}

// send publishes if there is a connection; without one a hint is worth nothing by the time there is.
func (b *Bus) send(subject string, data []byte) {
	b.mu.Lock()
	nc := b.nc
	b.mu.Unlock()
	if nc == nil {
		return
	}
	if err := nc.Publish(subject, data); err != nil {
		b.log.Debug("a hint was not sent", "subject", subject, "err", err)
	}
}
