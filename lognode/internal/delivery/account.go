package delivery

import "github.com/splashdam/splashdam/shared/mq"

// Freed is a run of leases of one account that ended, however they did: settled through any gateway, run out, given
// back, removed. It is a hint for the credit of the gateway that leased them: not journaled, and after a change of
// leader that gateway asks Leased instead.
type Freed struct {
	// Stream and Account are those of the receive that took the leases.
	Stream, Account uint64
	// Segment and Counter are the fence of the first lease; the counters of the others follow.
	Segment, Counter uint64
	Count            uint32
}

// freedOf notes that a lease of gr with fence f is over.
func (m *Machine) freedOf(gr *grant, f fence) {
	if gr.account == 0 || !m.leading {
		return
	}
	if n := len(m.freed); n > 0 {
		last := &m.freed[n-1]
		if last.Account == gr.account && last.Stream == gr.stream && last.Segment == f.segment && last.Counter+uint64(last.Count) == f.counter {
			last.Count++
			return
		}
	}
	m.freed = append(m.freed, Freed{Stream: gr.stream, Account: gr.account, Segment: f.segment, Counter: f.counter, Count: 1})
}

// TakeFreed calls f with the leases of accounts that ended since the last call, in order, and forgets them. Take after
// each round of calls: nothing else bounds them.
func (m *Machine) TakeFreed(f func([]Freed)) {
	if len(m.freed) > 0 {
		f(m.freed)
		m.freed = m.freed[:0]
	}
}

// Leased says until when (Unix nanoseconds) the message at off is leased under the fence, 0 if it is not any more.
func (m *Machine) Leased(id mq.GroupID, off, segment, counter uint64) int64 {
	g := m.groups[id]
	if g == nil {
		return 0
	}
	if x := g.out[off]; x != nil && x.grant != nil && x.fence == (fence{segment, counter}) {
		return x.grant.until
	}
	return 0
}
