package delivery

import "github.com/splashdam/splashdam/shared/mq"

// ByMembers says whether each partition of a group has one owner at a time; false for a group that is not known.
//
// The machine does not know the owner. Who owns a partition is etcd's to say, and the partition's leader lets nobody
// else receive (package replica), from one request to the next: that is the whole hand-over. What the old owner has
// is leased to it like any message, so it is acked, retried or expires as ever, and in key order its own lease blocks
// its key. So no record of the hand-over is needed; the delivered records name the members. All that the machine does
// differently is to have attempts committed before they are handed out: the next owner may be served by another
// leader, which must know what the last one has.
func (m *Machine) ByMembers(id mq.GroupID) bool {
	g := m.groups[id]
	return g != nil && mq.ByMembers(g.Settings.Mode)
}
