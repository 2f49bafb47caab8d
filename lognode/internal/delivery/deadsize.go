package delivery

import "fmt"

// A machine does not know how large messages are, and no record says it. A group whose dead letters have a limit by bytes
// asks its leader for the sizes of those that die, and the oldest are removed once they are known. So the limit may be
// exceeded for a moment, by what died just now.

// bytesOf is what a dead letter counts now.
func (g *group) bytesOf(x *message) int64 {
	if g.Settings.Dead.MaxBytes == 0 || !g.m.leading {
		return 0
	}
	return int64(x.size)
}

// weigh counts a dead letter for the limit, or asks for its size.
func (g *group) weigh(off uint64, x *message) {
	if g.Settings.Dead.MaxBytes == 0 {
		return
	}
	if x.size == 0 {
		if c, ok := g.m.carried[off]; ok {
			x.size = max(c.size, carriedMore+1) - carriedMore
		} else {
			g.m.unsized = append(g.m.unsized, off)
		}
	}
	g.deadBytes += int64(x.size)
}

// TakeUnsized are at most so many offsets of dead letters whose sizes are asked for; each comes once while it is dead. The
// caller tells LearnSizes.
func (m *Machine) TakeUnsized(most int) []uint64 {
	out := m.unsized[:min(most, len(m.unsized)):min(most, len(m.unsized))]
	if m.unsized = m.unsized[len(out):]; len(m.unsized) == 0 {
		m.unsized = nil
	}
	return out
}

// LearnSizes says how large messages are, in the order of the offsets. Dead letters beyond their group's limit by bytes are removed.
func (m *Machine) LearnSizes(now int64, offsets []uint64, sizes []uint32) {
	if !m.leading {
		return
	}
	for _, g := range m.groups {
		if g.Settings.Dead.MaxBytes == 0 {
			continue
		}
		for i, off := range offsets {
			if x := g.out[off]; x != nil && x.size == 0 {
				if x.size = max(sizes[i], 1); x.state == StateDead {
					g.deadBytes += int64(x.size)
				}
			}
		}
		m.wantTrim(g, now)
	}
	m.done()
}

// checkDeadBytes tests what is counted for the limit by bytes, and that it is kept.
func (g *group) checkDeadBytes() error {
	bytes := int64(0)
	for _, x := range g.out {
		if x.state == StateDead {
			bytes += g.bytesOf(x)
		}
	}
	if most := g.Settings.Dead.MaxBytes; bytes != g.deadBytes || most > 0 && bytes > most {
		return fmt.Errorf("dead letters have %d bytes, counted as %d, at most %d are allowed", bytes, g.deadBytes, most)
	}
	return nil
}
