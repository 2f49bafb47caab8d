package replica

import (
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// removal is what Retain would take off the chain by other settings of the topic, segment by segment, if nothing else happens:
// by time at most its share at once, the rest in the hours that follow. The newest sealed segment and the open one stay. Bytes
// are of the entries here, also of what is carried forward; messages that are dead in a group are not counted, as they are.
func (p *Partition) removal(l *leadership, t *mq.TopicSettings) *mqpb.Removal {
	out := &mqpb.Removal{}
	counted := p.countedBytes(l)
	for i := 0; i+1 < len(l.chain); i++ {
		s := &l.chain[i]
		if !overShare(counted, t) && !p.expired(l, s, t.Retention) {
			break
		}
		if out.KeptFor = p.keeper(l, s, t.Retention); out.KeptFor != "" {
			break
		}
		info, _ := p.env.Store.Segment(s.ID)
		out.Segments++
		out.Messages += s.DataEnd().Offset - s.Base.Offset
		out.Bytes += uint64(info.Bytes)
		counted -= info.Bytes
	}
	if out.Messages > 0 {
		for _, off := range l.machine.MustCarry(l.chain[out.Segments-1].End) {
			if off >= l.chain[0].Base.Offset {
				out.Messages--
			}
		}
	}
	return out
}
