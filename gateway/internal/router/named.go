package router

import (
	"errors"
	"fmt"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Named is an error that is about a partition as a whole, with the topic's name: log nodes say "the partition" and know no
// topic by name. Any other error stays as it is.
func (r *Router) Named(p mq.PartitionID, err error) error {
	var e *mqerr.Error
	if err == nil || !errors.As(err, &e) {
		return err
	}
	out := *e
	if e.Code == mqerr.NoLeader {
		if short := r.short(p); short != nil {
			out = *short
		}
	}
	switch out.Code {
	case mqerr.NotLeader:
		// Which node was wrong is between tiers. To the caller it means that nobody was found who leads.
		out.Code, out.Detail = mqerr.NoLeader, "no node that answers leads it now"
	case mqerr.NoLeader, mqerr.NoQuorum, mqerr.NotEnoughReplicas, mqerr.StorageFull, mqerr.TooManyScheduled, mqerr.PartitionDamaged, mqerr.OutcomeUnknown,
		mqerr.OffsetExpired, mqerr.OffsetOutOfRange, mqerr.Lost, mqerr.ArchiveUnavailable:
	default:
		return err
	}
	out.Detail = r.name(p) + ": " + out.Detail
	return &out
}

// name is a partition as its users know it.
func (r *Router) name(p mq.PartitionID) string {
	if t, ok := r.cfg.View.TopicByID(p.Topic); ok {
		return fmt.Sprintf("partition %d of %s", p.Number, topicName(&t))
	}
	return fmt.Sprintf("partition %d of topic number %d, which is not known here yet", p.Number, p.Topic)
}

// topicName is a topic as its users know it; of one that was deleted long ago the name is forgotten.
func topicName(t *meta.Topic) string {
	if t.Name == "" {
		return fmt.Sprintf("topic number %d", t.ID)
	}
	return "topic " + t.Name
}
