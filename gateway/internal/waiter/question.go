package waiter

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/splashdam/splashdam/shared/beat"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	askEvery = time.Second
	// askGap bounds how often news are asked about, so that many new groups share a question.
	askGap = 20 * time.Millisecond
	// mostPairs bounds one question. What is beyond has its turn in another second, as the order is never the same.
	mostPairs = 50_000
)

// Run asks every log node each second, and when somebody begins to wait for something new, what of all
// that is waited for is ready. It returns after ctx ended and all questions did.
func (m *Manager) Run(ctx context.Context) {
	var asks asks
	defer asks.Wait()
	defer m.unsubscribe()
	tick := beat.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			m.sweep(now)
		case <-m.kick:
		}
		if !m.ask(ctx, &asks) {
			continue
		}
		gap := time.NewTimer(askGap)
		select {
		case <-gap.C:
		case <-ctx.Done():
			gap.Stop()
		}
	}
}

// asks is the questions under way, one per node at most: a node that does not answer is not asked again
// until it did or the question timed out.
type asks struct {
	sync.WaitGroup
	mu   sync.Mutex
	busy map[string]bool
}

// ask sends one question to each node that leads something that is waited for, and says whether there is one.
func (m *Manager) ask(ctx context.Context, a *asks) bool {
	interest := m.interest()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy == nil {
		a.busy = map[string]bool{}
	}
	for node, pairs := range interest {
		if a.busy[node] {
			continue // the next second asks again
		}
		a.busy[node] = true
		a.Add(1)
		go func() {
			defer a.Done()
			m.question(ctx, node, pairs)
			a.mu.Lock()
			delete(a.busy, node)
			a.mu.Unlock()
		}()
	}
	return len(interest) > 0
}

// interest is what anybody waits for, by the node that leads it.
func (m *Manager) interest() map[string][]frame.Interest {
	pairs := m.pairs()
	out := map[string][]frame.Interest{}
	for _, p := range pairs {
		if node, _, err := m.cfg.Router.Leader(p.Partition); err == nil && len(out[node]) < mostPairs {
			out[node] = append(out[node], p)
		}
	}
	return out
}

// pairs are the partitions and groups that somebody waits for here. One that no waiter of its group takes is none of them:
// the members of an assigned group wait at many gateways, each for its own partitions.
func (m *Manager) pairs() (pairs []frame.Interest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, q := range m.queues {
		for p := range q.parts {
			if q.all > 0 || q.parts[p].takers > 0 {
				pairs = append(pairs, frame.Interest{Partition: mq.PartitionID{Topic: k.topic, Number: uint32(p)}, Group: k.group})
			}
		}
	}
	for topic, t := range m.tails {
		for p := 0; t.followers > 0 && p < len(t.ends); p++ {
			pairs = append(pairs, frame.Interest{Partition: mq.PartitionID{Topic: topic, Number: uint32(p)}, Group: frame.TailGroup})
		}
	}
	return pairs
}

// question asks one node and takes its counts as hints.
func (m *Manager) question(ctx context.Context, node string, pairs []frame.Interest) {
	ctx, cancel := context.WithTimeout(ctx, askEvery)
	defer cancel()
	body, err := m.cfg.Router.CallNode(ctx, node, frame.TypeReady, &frame.Ready{Interest: pairs})
	if err != nil {
		m.cfg.Log.Debug("asking what is ready", slog.String("node", node), slog.Any("error", err))
		return
	}
	var counts frame.Counts
	if err := counts.Parse(body); err != nil {
		m.cfg.Log.Warn("counts can't be read", slog.String("node", node), slog.Any("error", err))
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range counts.Ready {
		if c.Group == frame.TailGroup {
			if t := m.tails[c.Partition.Topic]; t != nil && c.Code == mqerr.OK {
				t.end(c.Partition.Number, c.Count)
			}
			continue
		}
		q := m.queues[key{c.Partition.Topic, c.Group}]
		if q == nil {
			continue
		}
		if c.Code == mqerr.GroupNotFound {
			c.Count = 1 // somebody should ask: it finds out what became of the group, or tells the leader of it
		} else if c.Code != mqerr.OK {
			continue
		}
		q.hint(c.Partition.Number, c.Count)
	}
}

// sweep drops queues that nobody used for a while, and subscriptions without a queue.
func (m *Manager) sweep(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, q := range m.queues {
		if q.waiters > 0 || now.Sub(q.used) < keep {
			continue
		}
		delete(m.queues, k)
		m.unused(k.topic, q.topic)
	}
	for topic, t := range m.tails {
		if t.followers == 0 && now.Sub(t.used) >= keep {
			delete(m.tails, topic)
			m.unused(topic, t.topic)
		}
	}
}

// unused takes one user of a topic's subscription away; the last one ends it. The caller holds m.mu.
func (m *Manager) unused(topic mq.TopicID, t *topicWakes) {
	if t.queues--; t.queues == 0 {
		if t.cancel != nil {
			t.cancel()
		}
		delete(m.topics, topic)
	}
}

func (m *Manager) unsubscribe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.topics {
		if t.cancel != nil {
			t.cancel()
		}
	}
}
