package segment

import "fmt"

// violation is which invariant a state breaks, or "".
func (s *search) violation(w *world) string {
	if w.broken != "" {
		return w.broken
	}
	for i := range int(w.next) {
		x := &w.links[i]
		if x.state < open {
			continue
		}
		if text := w.ends(i); text != "" {
			return text
		}
		for k := 0; k < perSegment; k++ {
			if text := w.agree(i, k); text != "" {
				return text
			}
		}
	}
	return ""
}

// ends checks I1, I5, and that an open segment can still be sealed: enough replicas know it, but for faults.
func (w *world) ends(i int) string {
	x := &w.links[i]
	if (x.state == sealed || x.state == replaced) && x.end.Before(x.acked) {
		return fmt.Sprintf("I1: segment %d was acknowledged up to %s, beyond its end %s", i, x.acked, x.end)
	}
	before := firstBase
	if x.prev >= 0 {
		before = w.links[x.prev].end
	}
	if x.state != replaced && x.seg.Base != before {
		return fmt.Sprintf("I5: segment %d begins at %s, the one before ends at %s", i, x.seg.Base, before)
	}
	known := 0
	for n := range nodes {
		if x.holds(n) && (x.reps[n].known || x.reps[n].lost) {
			known++
		}
	}
	if x.state != replaced && known < len(x.seg.Replicas) {
		return fmt.Sprintf("segment %d is in the chain and was removed as unnamed by a replica", i)
	}
	return ""
}

// agree checks I2, I3 and I4 for one entry of one segment.
func (w *world) agree(i, k int) string {
	x := &w.links[i]
	at := x.at(k)
	said, held, holders, lost := w.said[code(at)], uint8(0), 0, 0
	acked := at.Before(x.acked) && x.state != replaced
	for n := range nodes {
		p := &x.reps[n]
		if p.lost {
			lost++
			if p.damaged || !p.known {
				continue
			}
		}
		if !x.answers(n) || !at.Before(p.r.Tail()) {
			continue
		}
		if held != 0 && held != p.held[k] {
			return fmt.Sprintf("I3: two replicas of segment %d differ at %s", i, at)
		}
		held = p.held[k]
		if acked && held != said {
			return fmt.Sprintf("I4: replica n%d of segment %d has other contents at %s than were acknowledged", n, i, at)
		}
		if holders++; p.lost {
			lost--
		}
	}
	if acked && holders+lost < x.seg.Quorum {
		return fmt.Sprintf("I2: %s of segment %d was acknowledged and is on %d replicas", at, i, holders)
	}
	return ""
}
