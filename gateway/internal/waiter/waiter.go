// Package waiter holds the long polls of a gateway. A waiting receive costs its request's goroutine, a
// timer and a place in its group's queue; who is woken when is decided here, and what is ready only by the
// partitions' leaders.
//
// Hints come from three sides: wake-ups over the bus (at once, may be lost), the leader's answers to a
// receive (how many more there are), and one question a second to each log node about everything that
// anybody here waits for (the timer behind the others).
package waiter

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/splashdam/splashdam/gateway/internal/router"
	"github.com/splashdam/splashdam/shared/bus"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// keep is how long a queue and its topic's subscription outlive their last use: consumers that poll in a loop
	// should not subscribe each time.
	keep = time.Minute
	// flushWait bounds how long the first waiter of a topic waits for its subscription to be in force. Without
	// it, the question of each second finds what was missed.
	flushWait = 250 * time.Millisecond
)

// Config says what a manager works with.
type Config struct {
	Most   int // waiters at once; more are refused
	Router *router.Router
	Bus    *bus.Bus
	Log    *slog.Logger
}

// Manager holds all queues of a gateway. Its methods may be called by any goroutine.
type Manager struct {
	cfg  Config
	kick chan struct{} // capacity 1: somebody waits for something new

	mu      sync.Mutex
	waiters int
	queues  map[key]*queue
	topics  map[mq.TopicID]*topicWakes
	tails   map[mq.TopicID]*tail
}

// topicWakes is the subscription to one topic's wake-ups. Guarded by Manager.mu.
type topicWakes struct {
	queues  int
	cancel  func()        // nil until somebody waits
	flushed chan struct{} // closed when the subscription is in force, as far as known
}

// New makes a manager; Run asks the questions.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, kick: make(chan struct{}, 1), queues: map[key]*queue{}, topics: map[mq.TopicID]*topicWakes{},
		tails: map[mq.TopicID]*tail{}}
}

// Order is the partitions that a receive should ask, in that order. only is nil for all of them.
func (m *Manager) Order(topic mq.TopicID, group mq.GroupID, partitions uint32, only, dst []uint32) []uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue(key{topic, group}, partitions).order(only, dst)
}

// Stamp is to be read before a leader is asked, and given to Answered with its answer.
func (m *Manager) Stamp(topic mq.TopicID, group mq.GroupID, partition uint32) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if q := m.queues[key{topic, group}]; q != nil && int64(partition) < int64(len(q.parts)) {
		return q.parts[partition].stamp
	}
	return 0
}

// Answered records how many messages a leader has left after an answer.
func (m *Manager) Answered(topic mq.TopicID, group mq.GroupID, partition uint32, stamp, more uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if q := m.queues[key{topic, group}]; q != nil {
		q.answered(partition, stamp, more)
	}
}

// queue finds or makes a queue. The caller holds m.mu.
func (m *Manager) queue(k key, partitions uint32) *queue {
	q := m.queues[k]
	if q == nil {
		q = &queue{key: k, topic: m.wakesOf(k.topic), gone: make(chan struct{})}
		m.queues[k] = q
	}
	for uint32(len(q.parts)) < partitions {
		q.parts = append(q.parts, part{})
	}
	q.used = time.Now()
	return q
}

// wakesOf finds or makes what is known of a topic's subscription, for one more user of it. The caller holds m.mu.
func (m *Manager) wakesOf(topic mq.TopicID) *topicWakes {
	t := m.topics[topic]
	if t == nil {
		t = &topicWakes{}
		m.topics[topic] = t
	}
	t.queues++
	return t
}

// subscribe subscribes to a topic's wake-ups, if that was not done before. The caller holds m.mu, and calls what is
// returned without it: that waits until the subscription is in force, as far as is known.
func (m *Manager) subscribe(topic mq.TopicID, t *topicWakes) (inForce func(context.Context)) {
	first := t.cancel == nil
	if first {
		t.flushed = make(chan struct{})
		t.cancel = m.cfg.Bus.SubscribeWake(topic, func(pairs []bus.Pair) { m.woken(topic, pairs) })
	}
	flushed := t.flushed
	return func(ctx context.Context) {
		if first {
			flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWait)
			if err := m.cfg.Bus.Flush(flush); err != nil {
				m.cfg.Log.Debug("wake-ups may come late", slog.Uint64("topic", uint64(topic)), slog.Any("error", err))
			}
			cancel()
			close(flushed)
		}
		select {
		case <-flushed:
		case <-ctx.Done():
		}
	}
}

// Join makes a waiter that is awake: it has to ask the leaders once more (what became ready before it joined
// gave it no hint) and to Park then. Leave must be called. At the bound it is Overloaded.
func (m *Manager) Join(ctx context.Context, topic mq.TopicID, group mq.GroupID, partitions uint32, only []uint32) (*Waiter, error) {
	m.mu.Lock()
	if m.waiters >= m.cfg.Most {
		m.mu.Unlock()
		return nil, mqerr.New(mqerr.Overloaded, "%d receives wait here already", m.cfg.Most)
	}
	q := m.queue(key{topic, group}, partitions)
	m.waiters++
	q.nextSeq++
	w := &Waiter{m: m, q: q, only: only, seq: q.nextSeq, wake: make(chan struct{}, 1)}
	more := q.arrive(w)
	inForce := m.subscribe(topic, q.topic)
	m.mu.Unlock()
	inForce(ctx)
	if more {
		m.poke()
	}
	return w, nil
}

// woken takes hints from the bus.
func (m *Manager) woken(topic mq.TopicID, pairs []bus.Pair) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range pairs {
		if q := m.queues[key{topic, p.Group}]; q != nil {
			q.hint(p.Partition, 1)
		}
	}
	m.tailWoken(topic, pairs)
}

func (m *Manager) poke() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// Waiting is how many receives and streams wait.
func (m *Manager) Waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiters
}

// Park puts the waiter to sleep, in the place that it always had; parked it stays so. Woken is sent to when it should
// ask. A wake-up that was not taken before goes to whoever is first now.
func (w *Waiter) Park() {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.parked {
		return
	}
	w.q.untaken(w)
	w.q.park(w)
	w.q.dispatch()
}

// Requeue gives a waiter that is not parked the last place: a stream that got something lets the others be first.
func (w *Waiter) Requeue() {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.q.nextSeq++
	w.seq = w.q.nextSeq
}

// Rest says that the waiter can take nothing for now: it is not woken, and what it was woken for goes to the next in line.
func (w *Waiter) Rest() {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.parked {
		w.q.unlink(w)
	}
	w.q.untaken(w)
	w.q.asleep(w)
	w.q.dispatch()
}

// Gone is closed when the group or its topic was deleted.
func (w *Waiter) Gone() <-chan struct{} { return w.q.gone }

// Woken is the waiter's wake-up; after it Hint says which partition to ask first.
func (w *Waiter) Woken() <-chan struct{} { return w.wake }

// Hint is the partition for which the waiter was woken.
func (w *Waiter) Hint() uint32 {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	return w.ready
}

// Leave ends the waiting. A wake-up that was not used goes to the next in line.
func (w *Waiter) Leave() {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.parked {
		w.q.unlink(w)
	}
	w.q.asleep(w)
	w.q.depart(w)
	w.m.waiters--
	w.q.used = time.Now()
	w.q.dispatch()
}
