package waiter

import "github.com/splashdam/splashdam/shared/mq"

// Standing is what the metadata says of a group.
type Standing int

// The standings. What was never known may only not have arrived yet.
const (
	Unknown Standing = iota
	Alive
	Deleted
)

// End tells the waiters of groups that were deleted: those that the metadata calls deleted, or no longer knows. It is to
// be called after changes of the metadata.
func (m *Manager) End(standing func(mq.TopicID, mq.GroupID) Standing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, q := range m.queues {
		s := standing(k.topic, k.group)
		if s == Deleted || s == Unknown && q.seen {
			select {
			case <-q.gone:
			default:
				close(q.gone)
			}
		}
		q.seen = q.seen || s == Alive
	}
}
