package chaos

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/splashdam/splashdam/loadtest/checker"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// Groups whose messages come without being asked for.
const (
	eventsGroup = "by-events"  // server-sent events, settled by requests, ordered by key
	socketGroup = "by-socket"  // WebSockets, settled on them, ordered by key
	workerGroup = "by-worker"  // members that the SDK keeps, ordered by key
	exportGroup = "dying"      // rejects at random; its dead letters are published to a topic of their own
	anyHook     = "any"        // a webhook without an order
	keyHook     = "key"        // a webhook that orders by key
	credit      = 100          // messages that a stream may have out
	deadSuffix  = "-graveyard" // of the topic that dead letters go to
)

// streams are the judges of the groups above, and the endpoint of the webhooks.
type streams struct {
	events, socket, worker *order
	exported               *exported
	endpoint               *endpoint
}

// makeStreams makes the groups and webhooks. Nothing dies but what is rejected.
func (tr *traffic) makeStreams(ctx context.Context, c *client.Client) error {
	ordering, assigned, attempts, graveyard := "key", "assigned", 0, tr.topic+deadSuffix
	for name, in := range map[string]api.GroupInput{
		eventsGroup: {Ordering: &ordering, MaxAttempts: &attempts},
		socketGroup: {Ordering: &ordering, MaxAttempts: &attempts},
		workerGroup: {Ordering: &ordering, MaxAttempts: &attempts, Mode: &assigned},
		exportGroup: {MaxAttempts: &attempts, DeadLetterTopic: &graveyard},
	} {
		if _, err := c.PutGroup(ctx, tr.topic, name, in); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	s := &streams{events: newOrder(eventsGroup, tr.broke), socket: newOrder(socketGroup, tr.broke), worker: newOrder(workerGroup, tr.broke),
		exported: newExported(tr.broke), endpoint: newEndpoint(tr)}
	for _, h := range s.endpoint.hooks {
		if err := h.make(ctx, c, tr.topic); err != nil {
			s.endpoint.Close()
			return fmt.Errorf("webhook %s: %w", h.name, err)
		}
	}
	tr.streams = s
	tr.mixed = append(tr.mixed, eventsGroup, socketGroup, workerGroup, exportGroup)
	tr.covers = append(tr.covers, &s.events.coverage, &s.socket.coverage, &s.worker.coverage, &s.exported.coverage)
	for _, h := range s.endpoint.hooks {
		tr.mixed = append(tr.mixed, h.group())
		tr.covers = append(tr.covers, &h.order.coverage)
	}
	return nil
}

// stream begins to consume with all of them.
func (tr *traffic) stream() {
	for i := range 2 {
		tr.consumers.Go(func() { tr.life(tr.consuming, 100+i, tr.follow) })
		tr.consumers.Go(func() { tr.life(tr.consuming, 110+i, tr.talk) })
		tr.consumers.Go(func() { tr.consume(tr.consuming, 130+i, tr.exporting()) })
	}
	for i := range 3 {
		tr.consumers.Go(func() { tr.life(tr.consuming, 120+i, tr.workAs) })
	}
	tr.consumers.Go(func() { tr.streams.endpoint.weather(tr.consuming) })
}

// life runs a consumer for some seconds, and then another one, until ctx ends.
func (tr *traffic) life(ctx context.Context, number int, once func(ctx context.Context, number, life int) error) {
	random := rand.New(rand.NewPCG(tr.seed, uint64(3000+number)))
	for life := 0; ctx.Err() == nil; life++ {
		call, cancel := context.WithTimeout(ctx, time.Duration(3000+random.IntN(12000))*time.Millisecond)
		err := once(call, number, life)
		cancel()
		if err != nil && call.Err() == nil {
			tr.note("stream", err)
			pause(ctx, 100*time.Millisecond)
		}
	}
}

// follow consumes over server-sent events.
func (tr *traffic) follow(ctx context.Context, number, life int) error {
	o := client.SubscribeOptions{MaxInFlight: credit, Lease: lease, Name: fmt.Sprintf("events-%d-%d", number, life)}
	return tr.gather(ctx, number, tr.byOrder(tr.streams.events), tr.roam.Subscribe(ctx, tr.topic, eventsGroup, o))
}

// talk consumes and settles on a WebSocket; what fails there is settled by requests.
func (tr *traffic) talk(ctx context.Context, number, life int) error {
	s, err := tr.roam.Socket(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	r := tr.byOrder(tr.streams.socket)
	r.through = func(ctx context.Context, q api.SettleRequest) ([]error, error) {
		ctx, cancel := context.WithTimeout(ctx, lease/3)
		defer cancel()
		return s.Settle(ctx, q)
	}
	o := client.SubscribeOptions{MaxInFlight: credit, Lease: lease, Name: fmt.Sprintf("socket-%d-%d", number, life)}
	return tr.gather(ctx, number, r, s.Subscribe(ctx, tr.topic, socketGroup, o))
}

// gather works on what a stream brings, as much at once as has come. When the stream ends half of the consumers drop
// what they have not looked at, as if they had died: it comes again.
func (tr *traffic) gather(ctx context.Context, number int, r reader, all iter.Seq2[client.Delivery, error]) error {
	in := make(chan client.Delivery, credit)
	var worker sync.WaitGroup
	worker.Go(func() {
		seen := 0
		for d := range in {
			got := []client.Delivery{d}
			for len(in) > 0 && len(got) < credit {
				got = append(got, <-in)
			}
			if ctx.Err() == nil || number%2 == 0 {
				tr.work(context.WithoutCancel(ctx), number, r, got, &seen)
			}
		}
	})
	defer worker.Wait()
	defer close(in)
	for d, err := range all {
		if err != nil {
			return err
		}
		in <- d
	}
	return nil
}

// workAs is a consumer of the SDK as a member, over long polls, events and WebSockets by turns. The consumer
// acknowledges; now and then the handler does it before, so that there is an answer to file.
func (tr *traffic) workAs(ctx context.Context, number, life int) error {
	r, seen := tr.byOrder(tr.streams.worker), 0
	var mu sync.Mutex
	k := tr.roam.Consumer(tr.topic, workerGroup, func(ctx context.Context, d client.Delivery) error {
		fence, err := checker.ParseFence(d.Fence)
		if err != nil {
			return err
		}
		r.delivered(number, &d, fence)
		mu.Lock()
		seen++
		n := seen
		mu.Unlock()
		switch {
		case d.Attempt == 1 && n%nackEvery == 0:
			return client.RetryAfter(fmt.Errorf("chaos"), 100*time.Millisecond)
		case n%4 == 0:
			r.settling(&d)
			if err := tr.roam.Ack(ctx, d.Receipt); err == nil {
				r.acked(&d, fence)
			}
		default:
			r.settling(&d)
		}
		return nil
	}, client.ConsumerOptions{Concurrency: 64, Lease: lease, Wait: time.Second, Drain: 5 * time.Second,
		Member: &client.MemberOptions{Name: fmt.Sprintf("worker-%d-%d", number, life), TTL: memberTTL}})
	return []func(context.Context) error{k.Run, k.RunStream, k.RunSocket}[(number+life)%3](ctx)
}

// String is for the summary.
func (s *streams) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "server-sent events: %s\nWebSockets: %s\nmembers of the SDK: %s\n", s.events, s.socket, s.worker)
	fmt.Fprintf(&b, "dead letter topic: %s, %d died, %d copies\n", &s.exported.coverage, len(s.exported.sent), s.exported.copies)
	for _, h := range s.endpoint.hooks {
		fmt.Fprintf(&b, "webhook %s: %s\n", h.name, h)
	}
	return b.String()
}
