package segment

import (
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Outrun is a segment whose leader has shown itself, which it does only once etcd has named it, before the head that names it came;
// the zero value is none. The head may not come for long: the coordinators may be gone.
type Outrun struct{ by *mq.Segment }

// Note hears from the leader of a segment, with the newest head's open one; true if that is news.
func (o *Outrun) Note(s, open *mq.Segment) bool {
	if open == nil || s.Number <= open.Number || o.Past(s) || o.by != nil && o.by.Number == s.Number {
		return false
	}
	o.by = s
	return true
}

// Past says whether a later segment than s is known to be led.
func (o *Outrun) Past(s *mq.Segment) bool { return o.by != nil && s.Number < o.by.Number }

// NotLeader is what a node answers that does not lead the partition: with who does, as far as it knows.
func (o *Outrun) NotLeader(open *mq.Segment) *mqerr.Error {
	e := mqerr.New(mqerr.NotLeader, "this node does not lead the partition")
	switch {
	case o.by != nil && (open == nil || o.Past(open)):
		e.Leader = o.by.LeaderNode()
	case open != nil:
		e.Leader = open.LeaderNode()
	}
	return e
}
