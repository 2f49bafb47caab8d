package checker

import (
	"cmp"
	"maps"
	"slices"
)

// maxExamples bounds how many findings of each kind are told in words.
const maxExamples = 10

// Report is the outcome of a run. The first part are figures, the second the findings: each must be 0.
type Report struct {
	Sent        int `json:"sent"`
	Stored      int `json:"stored"`  // answered with an offset
	Refused     int `json:"refused"` // answers that said that nothing was stored
	Unknown     int `json:"unknown"` // sends that may have been carried out or not
	Delivered   int `json:"delivered"`
	Redelivered int `json:"redelivered"` // deliveries of an offset after its first
	Copies      int `json:"copies"`      // messages at more than one offset, after an unknown outcome
	Acked       int `json:"acked"`       // offsets whose acknowledgement was answered
	Foreign     int `json:"foreign"`     // values of other runs
	Unsettled   int `json:"unsettled"`   // stored, delivered, not acknowledged at the end

	Lost       int      `json:"lost"`         // answered as stored, never delivered
	Phantom    int      `json:"phantom"`      // delivered, but never sent, refused, or more often than it was sent
	Damaged    int      `json:"damaged"`      // delivered with other bytes
	TwoValues  int      `json:"two_values"`   // offsets with two messages
	CameBack   int      `json:"came_back"`    // delivered after an answered acknowledgement
	KeyMoved   int      `json:"key_moved"`    // keys in two partitions
	OutOfOrder int      `json:"out_of_order"` // messages of a key stored in another order than sent
	FirstTwice int      `json:"first_twice"`  // delivered as attempt 1 twice
	Overtaken  int      `json:"overtaken"`    // a key's messages first delivered out of order
	Disturbed  bool     `json:"disturbed"`    // the last two are then no violations
	Examples   []string `json:"examples,omitempty"`
}

// Violations is how many promises were broken.
func (r *Report) Violations() int {
	n := r.Lost + r.Phantom + r.Damaged + r.TwoValues + r.CameBack + r.KeyMoved + r.OutOfOrder
	if !r.Disturbed {
		n += r.FirstTwice + r.Overtaken
	}
	return n
}

// Finish judges what can only be judged at the end, when nothing is delivered any more. It is called once.
func (c *Checker) Finish() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Sent = len(c.payloads)
	c.report.Disturbed = c.options.Disturbed
	for _, number := range slices.Sorted(maps.Keys(c.partitions)) {
		c.finishPartition(number, c.partitions[number])
	}
	for i := range c.payloads {
		c.finishPayload(uint32(i+1), &c.payloads[i])
	}
	return c.report
}

// finishPartition walks the offsets upwards: what is stored must have been delivered, and the ids of a
// key must grow. A message with an unknown outcome may have been stored late, so it is left out of the order.
func (c *Checker) finishPartition(number uint32, p *partition) {
	last := map[uint32]uint32{} // key -> id
	for _, at := range slices.SortedFunc(maps.Keys(p.pieces), cmp.Compare[uint64]) {
		piece := p.pieces[at]
		for i := range piece {
			s, offset := &piece[i], at*pieceLength+uint64(i)
			if s.id == 0 || !s.stored {
				continue
			}
			switch {
			case s.deliveries == 0:
				c.note(&c.report.Lost, "%d/%d (message %d) was answered as stored and never delivered", number, offset, s.id)
			case !s.acked:
				c.report.Unsettled++
			}
			sent := &c.payloads[s.id-1]
			if sent.key == 0 || sent.unknowns > 0 {
				continue
			}
			if last[sent.key] > s.id {
				c.note(&c.report.OutOfOrder, "key %d: message %d at %d/%d is behind message %d, which was sent later",
					sent.key-1, s.id, number, offset, last[sent.key])
			}
			last[sent.key] = max(last[sent.key], s.id)
		}
	}
}

func (c *Checker) finishPayload(id uint32, p *payload) {
	allowed := int(p.unknowns)
	if p.stored {
		allowed++
	}
	if allowed == 0 && !p.refused {
		allowed = 1 // the run ended before its answer
	}
	switch copies := int(p.copies); {
	case copies <= 1 && copies <= allowed:
	case copies <= allowed:
		c.report.Copies++
	case allowed == 0:
		c.note(&c.report.Phantom, "message %d was refused as not stored, and is there", id)
	default:
		c.note(&c.report.Phantom, "message %d is at %d offsets, of which at most %d were asked for", id, copies, allowed)
	}
}
