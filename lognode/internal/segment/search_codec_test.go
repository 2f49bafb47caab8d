package segment

import "github.com/splashdam/splashdam/shared/mq"

// codec turns a world into few bytes and back, by one description for both directions: states wait in this form,
// and two that have the same bytes are the same state.
type codec struct {
	b       []byte
	at      int
	writing bool
}

func (c *codec) byte(v *uint8) {
	if c.writing {
		c.b = append(c.b, *v)
		return
	}
	*v = c.b[c.at]
	c.at++
}

func (c *codec) pos(p *mq.Position) {
	v := code(*p)
	c.byte(&v)
	*p = positions[v]
}

func (c *codec) bits(flags ...*bool) {
	var v uint8
	for i, f := range flags {
		if *f {
			v |= 1 << i
		}
	}
	c.byte(&v)
	for i, f := range flags {
		*f = v>>i&1 == 1
	}
}

func encode(w *world, buf []byte) []byte {
	c := codec{b: buf[:0], writing: true}
	c.world(w)
	return c.b
}

func decode(b []byte, w *world) {
	*w = world{}
	c := codec{b: b}
	c.world(w)
	w.bind()
}

func (c *codec) world(w *world) {
	c.byte(&w.cur)
	c.byte(&w.rev)
	c.byte(&w.next)
	for i := range w.boots {
		c.byte(&w.boots[i])
	}
	for i := range w.fences {
		c.byte(&w.fences[i])
	}
	faults := w.crashes | w.lies<<2 | w.wipes<<4 | w.breaks<<6
	c.byte(&faults)
	w.crashes, w.lies, w.wipes, w.breaks = faults&3, faults>>2&3, faults>>4&3, faults>>6
	for i := range w.ctls {
		c.controller(&w.ctls[i])
	}
	for i := range w.said {
		c.byte(&w.said[i])
	}
	for i := range w.links {
		if i < int(w.next) {
			c.link(&w.links[i], i)
		} else {
			w.links[i].prev = -1
		}
	}
}

func (c *codec) controller(k *controller) {
	c.bits(&k.flying)
	if c.byte(&k.phase); k.phase != idle {
		c.byte(&k.seg)
		c.byte(&k.rev)
		c.byte(&k.answered)
		c.byte(&k.slot)
		c.byte(&k.made)
		c.pos(&k.end)
		for n := range k.tails {
			c.pos(&k.tails[n])
		}
	}
	if k.flying {
		c.byte(&k.flySeg)
		c.byte(&k.flySlot)
		c.byte(&k.flyRev)
		c.pos(&k.flyEnd)
	}
}

func (c *codec) link(x *chainLink, slot int) {
	var set, leader, boot, compared, number uint8
	prev := uint8(x.prev + 1)
	if c.writing {
		for n := range nodes {
			if x.holds(n) {
				set |= 1 << n
			}
		}
		leader, boot, compared = uint8(x.leader()), uint8(x.seg.Leader.Boot), uint8(x.seg.Compared)
		number = uint8(x.seg.Number)
	}
	base := x.seg.Base
	c.byte(&x.state)
	c.byte(&prev)
	c.byte(&set)
	c.byte(&leader)
	c.byte(&boot)
	c.byte(&compared)
	c.byte(&number)
	c.pos(&base)
	c.pos(&x.end)
	c.pos(&x.acked)
	for k := range x.mem {
		c.byte(&x.mem[k])
	}
	if x.prev = int8(prev) - 1; !c.writing {
		x.seg = segmentOf(slot, number, base, set, int(leader), boot, compared)
	}
	c.bits(&x.hole)
	c.pos(&x.held)
	c.pos(&x.open.target)
	c.pos(&x.open.held)
	for _, b := range []*uint8{&x.open.whole, &x.open.judged, &x.open.own} {
		c.byte(b)
	}
	c.leader(x)
	for n := range nodes {
		if set>>n&1 == 1 {
			c.replica(x, &x.reps[n])
		}
	}
}

func (c *codec) leader(x *chainLink) {
	if c.bits(&x.leads, &x.l.chained, &x.l.sealed); !x.leads {
		return
	}
	c.pos(&x.l.next)
	c.pos(&x.l.prev)
	c.pos(&x.l.commit)
	for i := range x.seg.Replicas {
		c.pos(&x.tails[i])
	}
	if !c.writing {
		x.l.seg, x.l.self = x.seg, x.self(x.leader())
	}
}

func (c *codec) replica(x *chainLink, p *replica) {
	r := &p.r
	ended := r.end != nil
	// What the leader was asked already (r.asked) changes no verdict here: entries are offered in order only.
	c.bits(&p.known, &p.damaged, &p.removing, &p.lost, &r.sealing, &r.flagged, &ended, &r.unsure)
	c.bits(&p.remade)
	if c.pos(&p.ack); !p.known {
		return
	}
	c.pos(&r.tail)
	c.pos(&r.queued)
	c.pos(&r.prev)
	for k := range p.held {
		c.byte(&p.held[k])
	}
	if p.damaged {
		c.byte(&p.gaps)
	}
	if ended {
		var end mq.Position
		if c.writing {
			end = *r.end
		}
		c.pos(&end)
		r.end = &positions[code(end)]
		c.pos(&r.streamed)
	}
	if !c.writing {
		r.seg = x.seg
	}
}
