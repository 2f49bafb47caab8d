package waiter

import (
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// Standing is what the metadata says of a group.
type Standing int

// The standings. What was never known may only not have arrived yet.
const (
	Unknown Standing = iota
	Alive
	Deleted
)

// End tells the waiters of groups and the followers of topics that were deleted: those that the metadata calls deleted,
// or no longer knows. It is asked for topics with frame.TailGroup. It is to be called after changes of the metadata.
func (m *Manager) End(standing func(mq.TopicID, mq.GroupID) Standing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, q := range m.queues {
		q.seen = ended(standing(k.topic, k.group), q.seen, q.gone)
	}
	for topic, t := range m.tails {
		t.seen = ended(standing(topic, frame.TailGroup), t.seen, t.gone)
	}
}

// ended closes gone if what it is about was deleted, and says whether the metadata has had it.
func ended(s Standing, seen bool, gone chan struct{}) bool {
	if s == Deleted || s == Unknown && seen {
		select {
		case <-gone:
		default:
			close(gone)
		}
	}
	return seen || s == Alive
}
