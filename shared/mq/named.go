package mq

// Named is how far a partition's chain has come, as somebody knows it: the highest segment number that was named for it,
// and at that number the highest revision of its key in etcd. A store keeps what it saw, durably, and refuses less
// (replication rule R7). The number counts first, because the revisions of an etcd that was rebuilt begin anew.
type Named struct {
	Number   uint64
	Revision int64
}

// Less orders by number, then by revision.
func (n Named) Less(o Named) bool {
	return n.Number < o.Number || n.Number == o.Number && n.Revision < o.Revision
}

// Admits says whether a store that saw n answers a leader that acts for the segment of a number.
func (n Named) Admits(number uint64) bool { return number >= n.Number }

// Follows says whether a store that saw n takes the word of somebody who knows o: it is not older.
func (n Named) Follows(o Named) bool { return !o.Less(n) }

// Named is what a head says of its partition; false if it names no segment yet.
func (h *Head) Named() (n Named, ok bool) { return Named{h.Next - 1, h.Revision}, h.Next > 0 }
