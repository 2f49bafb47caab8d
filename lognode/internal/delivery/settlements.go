package delivery

import "github.com/splashdam/splashdam/shared/mq"

// Settlement is what the journal says of one message's settlement by its consumer.
type Settlement struct {
	Event
	Offset uint64
}

// Settlements calls f with what an entry says of the messages that consumers of a group settled with a reason, in
// order: acked, nacked, postponed and dead. Records of kinds that this version does not know are passed over.
func Settlements(e *mq.Entry, group mq.GroupID, f func(Settlement)) error {
	var s settled
	for rec, err := range mq.Records(e.Records) {
		if err != nil {
			return err
		}
		if rec.Version != 1 || rec.Kind != mq.KindSettled {
			continue
		}
		if err := s.read(rec.Body); err != nil {
			return err
		}
		if s.group != group || s.reason == "" {
			continue
		}
		for _, x := range s.marks {
			for i := range min(x.count, MaxReceive) {
				s.trace(x.first+i, func(ev Event) { f(Settlement{ev, x.first + i}) })
			}
		}
	}
	return nil
}
