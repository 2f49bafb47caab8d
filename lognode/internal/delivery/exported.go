package delivery

import (
	"github.com/splashdam/splashdam/shared/mq"
)

// deadExported is the record of dead letters that were published to the group's dead letter topic. They stay where
// they are; one that is redriven and dies again is not exported yet.
//
// Form: deadSet.
type deadExported struct{ deadSet }

func (d *deadExported) read(body []byte) error {
	r := mq.NewReader(body)
	d.deadSet.read(r)
	return end(r, "dead exported")
}

func (d *deadExported) trace(offset uint64, f func(Event)) {
	d.deadSet.trace(offset, Event{Type: EventDeadExported}, f)
}

// MarkExported notes that dead letters were published elsewhere. Offsets ascend; those that are not dead are passed over,
// and so are those that died again after since (Unix nanoseconds), which is when the caller looked: that death is
// another one. It says how many it marked.
func (m *Machine) MarkExported(now int64, id mq.GroupID, offsets []uint64, since int64) (n int, err error) {
	g, err := m.decides(id)
	if err != nil {
		return 0, err
	}
	due := offsets[:0:0]
	for _, off := range offsets {
		if x := g.out[off]; x != nil && x.state == StateDead && !x.exported && x.until <= since {
			due = append(due, off)
		}
	}
	for spans := range g.deadSpans(due) {
		r := deadExported{deadSet{g.ID, g.generation, now, spans}}
		m.scratch = r.append(m.scratch[:0])
		m.write(mq.KindDeadExported, m.scratch, true)
		m.deadExported(g, &r)
		n += r.messages()
	}
	m.done()
	return n, nil
}

// deadExported is what a dead exported record does.
func (m *Machine) deadExported(g *group, r *deadExported) {
	for _, s := range r.spans {
		for off := s.from; off < s.to; off++ {
			if x := g.out[off]; x != nil && x.state == StateDead && !x.exported {
				x.exported = true
				g.exported++
			}
		}
	}
}
