package chaos

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/loadtest/checker"
	"github.com/splashdam/splashdam/shared/client"
)

// traffic are the producers and consumers of a run, and what they saw.
type traffic struct {
	topic           string
	seed            uint64
	every           time.Duration    // between the publishes of a producer
	one             []*client.Client // one for each gateway: what is sent once goes through one
	roam            *client.Client   // goes to whichever gateway answers, and repeats, as programs do
	check           *checker.Checker
	ledger          *ledger
	gaps            *gaps
	order, assigned *order
	rejected        *rejected
	timed           *timed
	full            atomic.Bool // the checker's bound is reached
	// duplicates counts messages that were known again.
	duplicates atomic.Int64

	mu       sync.Mutex
	errors   map[string]int // "publish no_leader" and the like
	broken   int            // promises
	examples []string       // of broken ones

	mixed   []string    // groups beside the first one
	isMixed bool        // those of makeGroups are among them
	covers  []*coverage // of those that get everything
	streams *streams    // nil without them
	// faults counts those that began, running those that have not ended; disturbed is when the last one ended, Unix
	// nanoseconds.
	faults, running, disturbed atomic.Int64

	producing, consuming         context.Context
	stopProducing, stopConsuming context.CancelFunc
	producers, consumers         sync.WaitGroup
}

// newTraffic connects to the gateways. Nothing is repeated by the client: what happens to each request is filed.
func newTraffic(urls []string, topic string, seed uint64, partitions int, every time.Duration) (*traffic, error) {
	tr := &traffic{topic: topic, seed: seed, every: every, ledger: newLedger(), errors: map[string]int{},
		gaps:  newGaps(partitions, time.Now()),
		check: checker.New(checker.Options{Run: uint32(seed), Fresh: true, Disturbed: true})}
	tr.order, tr.assigned = newOrder(orderedGroup, tr.broke), newOrder(assignedGroup, tr.broke)
	tr.rejected = newRejected(tr.broke)
	tr.timed = &timed{run: uint32(seed), broke: tr.broke}
	for _, url := range urls {
		c, err := client.New(client.Options{Servers: []string{url}, Retry: client.Retry{Attempts: 1}})
		if err != nil {
			return nil, err
		}
		tr.one = append(tr.one, c)
	}
	var err error
	tr.roam, err = client.New(client.Options{Servers: urls})
	return tr, err
}

// start begins to publish, with a producer for each partition, and to consume.
func (tr *traffic) start(ctx context.Context, consumers int) {
	producing, stop := context.WithCancel(ctx)
	tr.stopProducing = stop
	for p := range tr.gaps.counts() {
		tr.producers.Go(func() { tr.produce(producing, p) })
	}
	consuming, stop := context.WithCancel(ctx)
	tr.stopConsuming = stop
	for i := range consumers {
		tr.consumers.Go(func() { tr.consume(consuming, i, tr.any()) })
	}
	tr.producing, tr.consuming = producing, consuming
}

// mix adds what a measurement goes without: messages with times, and the groups that makeGroups has made.
func (tr *traffic) mix() {
	tr.isMixed = true
	tr.mixed = append(tr.mixed, orderedGroup, assignedGroup, deadGroup)
	tr.covers = append(tr.covers, &tr.order.coverage, &tr.assigned.coverage, &tr.rejected.coverage)
	for i := range tr.one {
		tr.producers.Go(func() { tr.time(tr.producing, i) })
		tr.consumers.Go(func() { tr.consume(tr.consuming, i, tr.byOrder(tr.order)) })
		tr.consumers.Go(func() { tr.consume(tr.consuming, i, tr.rejecting()) })
		tr.consumers.Go(func() { tr.member(tr.consuming, 2*i) })
		tr.consumers.Go(func() { tr.member(tr.consuming, 2*i+1) })
	}
	tr.consumers.Go(func() { tr.redrive(tr.consuming) })
}

// drain ends the producers and waits until everything that is stored is acknowledged, and a little longer for
// what should not come any more. It answers how many are left.
func (tr *traffic) drain(ctx context.Context, atMost time.Duration) (left int) {
	tr.stopProducing()
	tr.producers.Wait()
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for tr.check.Unacked() > 0 && ctx.Err() == nil {
		pause(ctx, 50*time.Millisecond)
	}
	pause(ctx, 2*time.Second)
	return tr.check.Unacked()
}

// end ends everybody.
func (tr *traffic) end() {
	if tr.stopProducing == nil {
		return // it never began
	}
	tr.stopProducing()
	tr.stopConsuming()
	tr.producers.Wait()
	tr.consumers.Wait()
	if tr.streams != nil {
		tr.streams.endpoint.Close()
	}
	for _, c := range append(tr.one, tr.roam) {
		c.Close()
	}
}

// disturb says that a fault begins; what it returns, that it has ended.
func (tr *traffic) disturb() (ended func()) {
	tr.faults.Add(1)
	tr.running.Add(1)
	return func() {
		tr.disturbed.Store(time.Now().UnixNano())
		tr.running.Add(-1)
	}
}

// aftermath is how long what a fault has cut off may still be on its way.
const aftermath = 3 * time.Second

// epoch is the same number as long as nothing disturbs the cluster, and a new one at each call during a fault and soon
// after it.
func (tr *traffic) epoch() int64 {
	now := time.Now()
	if tr.running.Load() > 0 || now.Sub(time.Unix(0, tr.disturbed.Load())) < aftermath {
		return -now.UnixNano()
	}
	return 1 + tr.faults.Load()
}

// note counts an error by its code.
func (tr *traffic) note(what string, err error) {
	code := "not_connected"
	var e *client.Error
	if errors.As(err, &e) {
		code = e.Code
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.errors[what+" "+code]++
}

func retryable(err error) bool {
	var e *client.Error
	return !errors.As(err, &e) || e.Retryable
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
