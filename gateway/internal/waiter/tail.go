package waiter

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/shared/bus"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// tail is one topic whose end readers without a group follow. All of them share what is asked and told about it, so a
// thousand readers cost the leaders no more than one. Guarded by Manager.mu.
type tail struct {
	topic     *topicWakes
	ends      []tailEnd // by partition
	version   uint64    // rises with each change
	changed   chan struct{}
	gone      chan struct{} // closed when the topic was deleted
	seen      bool          // the metadata has had it, see End
	followers int
	used      time.Time // when somebody last used it
}

// tailEnd is where a partition ends, as its leader said last, and the version that this or a hint changed.
type tailEnd struct{ next, version uint64 }

// Follower is one reader at the end of a topic. Its methods are for its own goroutine.
type Follower struct {
	m    *Manager
	t    *tail
	seen uint64
}

// closed is what a channel is that has something to say already.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Follow makes a follower, for which something has changed: it has to ask the leaders once. Leave must be called. At
// the bound it is Overloaded.
func (m *Manager) Follow(ctx context.Context, topic mq.TopicID, partitions uint32) (*Follower, error) {
	m.mu.Lock()
	if m.waiters >= m.cfg.Most {
		m.mu.Unlock()
		return nil, mqerr.New(mqerr.Overloaded, "%d receives and streams wait here already", m.cfg.Most)
	}
	t := m.tails[topic]
	if t == nil {
		t = &tail{topic: m.wakesOf(topic), changed: make(chan struct{}), gone: make(chan struct{}), version: 1}
		m.tails[topic] = t
	}
	for uint32(len(t.ends)) < partitions {
		t.ends = append(t.ends, tailEnd{version: t.version})
	}
	m.waiters++
	t.followers++
	fresh := t.followers == 1
	inForce := m.subscribe(topic, t.topic)
	m.mu.Unlock()
	inForce(ctx)
	if fresh {
		m.poke()
	}
	return &Follower{m: m, t: t}, nil
}

// Asking is to be called before the leaders are asked: it answers of which partitions there may be news, and what changes
// from here on is news again.
func (f *Follower) Asking() (partitions []uint32) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	for p := range f.t.ends {
		if f.t.ends[p].version > f.seen {
			partitions = append(partitions, uint32(p))
		}
	}
	f.seen = f.t.version
	return partitions
}

// Changed is closed when something has changed since Asking.
func (f *Follower) Changed() <-chan struct{} {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.seen != f.t.version {
		return closed
	}
	return f.t.changed
}

// Gone is closed when the topic was deleted.
func (f *Follower) Gone() <-chan struct{} { return f.t.gone }

// Leave ends the following.
func (f *Follower) Leave() {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.t.followers--
	f.m.waiters--
	f.t.used = time.Now()
}

// change tells all followers.
func (t *tail) change() {
	t.version++
	close(t.changed)
	t.changed = make(chan struct{})
}

// end takes a leader's word about the end of a partition.
func (t *tail) end(partition uint32, next uint64) {
	if int64(partition) < int64(len(t.ends)) && t.ends[partition].next != next {
		t.change()
		t.ends[partition] = tailEnd{next, t.version}
	}
}

// tailWoken takes a hint that a topic has grown.
func (m *Manager) tailWoken(topic mq.TopicID, pairs []bus.Pair) {
	t := m.tails[topic]
	if t == nil {
		return
	}
	changed := false
	for _, p := range pairs {
		if p.Group != frame.TailGroup || int64(p.Partition) >= int64(len(t.ends)) {
			continue
		}
		if !changed {
			t.change()
			changed = true
		}
		t.ends[p.Partition].version = t.version
	}
}
