package delivery

import "slices"

// deadline is something that is due: the end of a grant's lease, or of a message's wait. It holds while its grant
// still has its id, or its message still waits until due.
type deadline struct {
	due   int64
	grant *grant // nil for a wait
	id    uint64 // of the grant, or of the group that off waits in
	off   uint64
}

// deadline adds d to the heap.
func (m *Machine) deadline(d deadline) {
	m.deadlines.push(d)
	if len(m.deadlines.items)%4096 != 0 {
		return // the waits are counted now and then only
	}
	live := m.grants
	for _, g := range m.groups {
		live += g.count[StateWaiting]
	}
	if tooStale(len(m.deadlines.items), live) {
		m.deadlines.prune(m.holds)
	}
}

// newGrant takes over the reference to by.
func (m *Machine) newGrant(g *group, until int64, by *text) *grant {
	var gr *grant
	if n := len(m.freeGrant); n > 0 {
		gr = m.freeGrant[n-1]
		m.freeGrant = m.freeGrant[:n-1]
	} else {
		gr = new(grant)
	}
	m.lastGrant++
	m.grants++
	gr.id, gr.group, gr.until, gr.by = m.lastGrant, g, until, by
	m.deadline(deadline{due: until, grant: gr, id: gr.id})
	return gr
}

// add notes a run of the grant, without leasing it.
func (gr *grant) add(r Run) {
	gr.size += int(r.Count)
	if n := len(gr.runs); n > 0 {
		last := &gr.runs[n-1]
		if last.First+uint64(last.Count) == r.First && last.Attempt == r.Attempt {
			last.Count += r.Count
			return
		}
	}
	gr.runs = append(gr.runs, r)
}

// leaveGrant says that one message is no longer leased by gr.
func (m *Machine) leaveGrant(gr *grant) {
	if gr.left--; gr.left == 0 {
		m.endGrant(gr)
	}
}

func (m *Machine) endGrant(gr *grant) {
	m.confirm(gr)
	m.texts.drop(gr.by)
	m.grants--
	*gr = grant{runs: gr.runs[:0]}
	m.freeGrant = append(m.freeGrant, gr)
}

// newMessage takes one from those that were forgotten. They are made in slabs, so that a steady flow allocates nothing.
func (m *Machine) newMessage() *message {
	if len(m.free) == 0 {
		slab := make([]message, 64)
		for i := range slab {
			m.free = append(m.free, &slab[i])
		}
	}
	x := m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	return x
}

// handOut notes that gr goes out on a stream.
func (m *Machine) handOut(g *group, gr *grant, stream, delivery uint64) {
	of := m.unconfirmed[stream]
	if of == nil {
		of = map[uint64]*grant{}
		m.unconfirmed[stream] = of
	}
	gr.unconfirmed, gr.stream, gr.delivery, gr.sibling = true, stream, delivery, of[delivery]
	of[delivery] = gr
}

// confirm forgets that gr may be given back.
func (m *Machine) confirm(gr *grant) {
	if !gr.unconfirmed {
		return
	}
	of := m.unconfirmed[gr.stream]
	first := of[gr.delivery]
	if first == gr {
		first = gr.sibling
	} else {
		x := first
		for x.sibling != gr {
			x = x.sibling
		}
		x.sibling = gr.sibling
	}
	gr.unconfirmed, gr.sibling = false, nil
	if first != nil {
		of[gr.delivery] = first
		return
	}
	delete(of, gr.delivery)
	if len(of) == 0 && m.idleStreams() {
		delete(m.unconfirmed, gr.stream)
	}
}

// idleStreams says whether empty maps of streams have become too many to keep for use again.
func (m *Machine) idleStreams() bool { return len(m.unconfirmed) > 64 }

// Confirm says that the answer of a hand-over was written: it can no longer be given back. It is not journaled:
// after a failover a hand-over is not known as unconfirmed and simply expires.
func (m *Machine) Confirm(stream, delivery uint64) {
	for gr := m.unconfirmed[stream][delivery]; gr != nil; gr = m.unconfirmed[stream][delivery] {
		m.confirm(gr)
	}
}

// Return gives back a hand-over that did not happen, or those of its messages that are named: ready again, and
// the attempt does not count. What was settled meanwhile, or confirmed, stays as it is.
func (m *Machine) Return(now int64, stream, delivery uint64, offsets ...uint64) {
	if !m.leading {
		return
	}
	m.giveBack(now, m.unconfirmed[stream][delivery], offsets)
	m.done()
}

// StreamGone gives back everything that went out on a stream and was not confirmed.
func (m *Machine) StreamGone(now int64, stream uint64) {
	if !m.leading {
		return
	}
	of := m.unconfirmed[stream]
	deliveries := make([]uint64, 0, len(of))
	for d := range of {
		deliveries = append(deliveries, d)
	}
	slices.Sort(deliveries)
	for _, d := range deliveries {
		m.giveBack(now, of[d], nil)
	}
	delete(m.unconfirmed, stream)
	m.done()
}

// giveBack returns the messages of a hand-over that its grants still lease; those named, or all for nil.
func (m *Machine) giveBack(now int64, gr *grant, offsets []uint64) {
	for gr != nil {
		next := gr.sibling // gr ends with its last message
		g := gr.group
		if offsets == nil {
			gr.each(func(off uint64, x *message) { m.back(now, g, off, x) })
		}
		for _, off := range offsets {
			if x := g.out[off]; x != nil && x.grant == gr {
				m.back(now, g, off, x)
			}
		}
		gr = next
	}
}

func (m *Machine) back(now int64, g *group, off uint64, x *message) {
	attempt := x.attempt - min(x.attempt, 1)
	m.note(g, now, outReturned, now, "", mark{first: off, count: 1, attempt: attempt, fence: x.fence, due: now})
	g.giveBack(off, attempt, x.fence)
	g.refund(x.lane)
}

// each calls f with each message that gr leases still; f may end the lease.
func (gr *grant) each(f func(off uint64, x *message)) {
	g, id := gr.group, gr.id
	runs := gr.runs // f may end gr, which keeps the array for a later one: none begins while f runs
	for _, r := range runs {
		for i := range uint64(r.Count) {
			if gr.id != id {
				return
			}
			if x := g.out[r.First+i]; x != nil && x.grant == gr {
				f(r.First+i, x)
			}
		}
	}
}
