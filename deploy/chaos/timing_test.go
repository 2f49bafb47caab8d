package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// longest is how far ahead a message waits at most.
const longest = 5 * time.Second

// timer publishes messages with times, and cancels and moves some of them.
type timer struct {
	tr      *traffic
	random  *rand.Rand
	through int
	recent  []int // of those that wait, perhaps
}

// time publishes until ctx ends.
func (tr *traffic) time(ctx context.Context, number int) {
	w := &timer{tr: tr, through: number % len(tr.one), random: rand.New(rand.NewPCG(tr.seed, uint64(1000+number)))}
	for ctx.Err() == nil {
		w.publish(ctx)
		if len(w.recent) > 0 && w.random.IntN(2) == 0 {
			at := w.random.IntN(len(w.recent))
			id := w.recent[at]
			w.recent = append(w.recent[:at], w.recent[at+1:]...)
			if w.random.IntN(2) == 0 {
				w.cancel(ctx, id)
			} else {
				w.move(ctx, id)
			}
		}
		pause(ctx, 2*tr.every)
	}
}

func (w *timer) again(ctx context.Context) {
	w.through = (w.through + 1) % len(w.tr.one)
	pause(context.WithoutCancel(ctx), time.Duration(20+w.random.IntN(30))*time.Millisecond)
}

func (w *timer) one() *client.Client { return w.tr.one[w.through] }

// ahead is a time from now on, mostly within a second.
func (w *timer) ahead() time.Duration {
	if w.random.IntN(2) == 0 {
		return time.Duration(1 + w.random.Int64N(int64(time.Second)))
	}
	return time.Duration(1 + w.random.Int64N(int64(longest)))
}

// make is one message, and its number.
func (w *timer) make(keyed bool) (int, client.Message) {
	to := uint32(w.random.IntN(len(w.tr.gaps.counts())))
	m := client.Message{Partition: &to, Lane: lanes[w.random.IntN(len(lanes))]}
	if w.random.IntN(2) == 0 {
		m.Key = client.Key(fmt.Sprintf("key-%d", int(to)*keysOf+w.random.IntN(keysOf)))
	}
	var due time.Time
	switch w.random.IntN(3) {
	case 0:
		m.Delay = w.ahead()
		due = time.Now().Round(0).Add(m.Delay)
	case 1:
		m.DeliverAt = time.Now().Round(0).Add(w.ahead())
		due = m.DeliverAt
	}
	switch w.random.IntN(4) {
	case 0:
		m.TTL = time.Duration(1+w.random.IntN(300)) * time.Millisecond
	case 1:
		m.TTL = 10 * time.Minute
	}
	id, value := w.tr.timed.next(due, m.TTL)
	m.Value = value
	if keyed {
		m.IdempotencyKey = fmt.Sprintf("timed-%d", id)
	}
	return id, m
}

// publish sends a batch: until it is answered if it has idempotency keys, once if not.
func (w *timer) publish(ctx context.Context) {
	keyed := w.random.IntN(2) == 0
	var ids []int
	var messages []client.Message
	for range 1 + w.random.IntN(4) {
		id, m := w.make(keyed)
		ids, messages = append(ids, id), append(messages, m)
	}
	for began := time.Now(); ; w.again(ctx) {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishWait)
		results, err := w.one().PublishBatch(call, w.tr.topic, messages)
		cancel()
		if err != nil {
			w.tr.note("publish timed", err)
			results = make([]client.Result, len(ids))
			for i := range results {
				results[i].Err = err
			}
		}
		open := w.file(ids, results)
		if !open || !keyed || time.Since(began) > againWait {
			return
		}
	}
}

// file files answers, and says whether some are missing.
func (w *timer) file(ids []int, results []client.Result) (open bool) {
	for i, r := range results {
		switch {
		case r.Err == nil:
			if w.tr.timed.answered(ids[i], r) {
				w.recent = append(w.recent, ids[i])
			}
		case client.IsCode(r.Err, mqerr.IdempotencyConflict):
			w.tr.broke("timed message %d was sent with the same bytes, and answered: %v", ids[i], r.Err)
		default:
			open = true
			w.tr.timed.failed(ids[i], r.Err)
		}
	}
	if len(w.recent) > 50 {
		w.recent = w.recent[len(w.recent)-50:]
	}
	return open
}

func (s *timed) failed(id int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id-1].unknown = s.all[id-1].unknown || !nothingStored(err)
}

// cancel asks until it is answered, which is harmless.
func (w *timer) cancel(ctx context.Context, id int) {
	name := w.tr.timed.cancelling(id)
	for began := time.Now(); time.Since(began) < againWait; w.again(ctx) {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishWait)
		_, err := w.one().CancelScheduled(call, name, false)
		cancel()
		if w.settled("cancel", id, err) {
			w.tr.timed.cancelAnswered(id, err)
			return
		}
	}
}

// settled says that there is nothing to ask again: it was done, or is too late.
func (w *timer) settled(what string, id int, err error) bool {
	switch {
	case err == nil || client.IsCode(err, mqerr.AlreadyReleased):
		return true
	case client.IsCode(err, mqerr.MessageNotFound):
		w.tr.broke("timed message %d is not known: %s: %v", id, what, err)
		return true
	}
	w.tr.note(what, err)
	return false
}

// cancelling says that from now on a message may be gone.
func (s *timed) cancelling(id int) (name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id-1].perhaps = true
	return s.all[id-1].id
}

func (s *timed) cancelAnswered(id int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[id-1].cancelled, s.all[id-1].perhaps = err == nil, false
	if err == nil {
		s.cancels++
	}
}

// move asks for another time until it is answered. A request whose answer is lost may be carried out later, so after
// more than one the due time is the earliest that was asked for.
func (w *timer) move(ctx context.Context, id int) {
	by := w.ahead()
	if w.random.IntN(4) == 0 {
		by = 0
	}
	first := time.Now().Round(0).Add(by)
	name := w.tr.timed.moving(id, first)
	tries := 1
	for began := time.Now(); time.Since(began) < againWait; w.again(ctx) {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishWait)
		answer, err := w.one().DelayScheduled(call, name, by)
		cancel()
		if w.settled("move", id, err) {
			if err == nil {
				w.tr.timed.moved(id, tries, first, answer.DeliverAt)
			}
			return
		}
		tries++
	}
}

// moving says that from now on a message may come at another time, too.
func (s *timed) moving(id int, at time.Time) (name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.all[id-1]
	if at.Before(m.due) {
		m.due = at
	}
	return m.id
}

func (s *timed) moved(id, tries int, first, answered time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retimes++
	if m := s.all[id-1]; tries == 1 {
		m.due = answered
	} else {
		m.due = first
	}
}
