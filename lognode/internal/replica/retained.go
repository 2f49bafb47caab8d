package replica

import (
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// eventRetained ends every trace: until when the message is kept, as far as anybody can tell now.
const eventRetained = "RETAINED"

// retainedEvent says how long retention keeps what is in a segment; no segment is that of a message that was carried forward.
func (p *Partition) retainedEvent(l *leadership, s *mq.Segment) *mqpb.TraceEvent {
	ev := &mqpb.TraceEvent{At: p.env.Clock.Now(), Type: eventRetained, Reason: "nothing limits how long"}
	if s == nil {
		ev.Reason = "carried forward past retention: until its group settles it, or its dead letter limits end it"
		return ev
	}
	t, ok := p.env.Chain.Topic(p.id.Topic)
	if !ok {
		return ev
	}
	r := t.Settings.Retention
	if r.Time > 0 { // by the journal's time: at least until something is written that is so much newer
		newest := l.seg.Stamp()
		if info, ok := p.env.Store.Segment(s.ID); ok && s.ID != l.seg.Segment().ID && info.LastStamp > 0 {
			newest = info.LastStamp
		}
		ev.Until, ev.Reason = newest+int64(r.Time), "by retention.time"
	}
	switch {
	case r.Bytes > 0 && r.Time > 0:
		ev.Reason += ", or until it is over retention.bytes"
	case r.Bytes > 0:
		ev.Reason = "until it is over retention.bytes"
	}
	if (r.Bytes > 0 || r.Time > 0) && r.KeepUnsettled {
		ev.Reason += "; longer while an active group has not settled it"
	}
	return ev
}
