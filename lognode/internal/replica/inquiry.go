package replica

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// probeWait is how long a replica has to say what it holds; one that needs longer is not waited for.
	probeWait = 500 * time.Millisecond
	// probeGrace is how long those that are silent have when the others' answers suffice, at least: who is behind is found with
	// the rest, if it answers as fast as they do, and a node that hangs costs this.
	probeGrace = 20 * time.Millisecond
)

// inquiry asks all holders of a segment at once. Whoever makes one waits for its goroutines, with all or end.
type inquiry struct {
	found   []segment.Found // of those that answered; the zero value is one that has not
	left    int             // how many have not answered
	answers chan inquired   // has room for all
	began   time.Time
	cancel  context.CancelFunc
}

type inquired struct {
	i     int
	found segment.Found
}

// inquire begins an inquiry that ends with ctx, or when probeWait is over: who has not answered then is not known.
func (p *Partition) inquire(ctx context.Context, all []mq.Replica, one func(context.Context, mq.Replica) segment.Found) *inquiry {
	q := &inquiry{found: make([]segment.Found, len(all)), left: len(all), answers: make(chan inquired, len(all)), began: time.Now()}
	ctx, q.cancel = context.WithTimeout(ctx, probeWait)
	for i, r := range all {
		go func() {
			a := inquired{i: i}
			defer func() { q.answers <- a }()
			defer p.recovered(func(err error) { p.post(func() { p.stop(err) }) })
			a.found = one(ctx, r)
		}()
	}
	return q
}

func (q *inquiry) take(a inquired) {
	q.found[a.i] = a.found
	if q.left--; q.left == 0 {
		q.cancel()
	}
}

// all waits for everybody.
func (q *inquiry) all() []segment.Found {
	for q.left > 0 {
		q.take(<-q.answers)
	}
	return q.found
}

// end waits for nobody's answer any more.
func (q *inquiry) end() {
	q.cancel()
	q.all()
}

// until waits for everybody too, but once enough says that what is found suffices only a moment more: as long again as that took.
func (q *inquiry) until(enough func([]segment.Found) bool) []segment.Found {
	var over <-chan time.Time
	for q.left > 0 {
		if over == nil && enough(q.found) {
			moment := time.NewTimer(max(probeGrace, time.Since(q.began)))
			defer moment.Stop()
			over = moment.C
		}
		select {
		case a := <-q.answers:
			q.take(a)
		case <-over:
			return q.found
		}
	}
	return q.found
}
