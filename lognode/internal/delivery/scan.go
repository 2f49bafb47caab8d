package delivery

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/splashdam/splashdam/shared/mq"
)

// KeyHash is what order by key knows of a key. It is never 0, which stands for no key.
func KeyHash(key []byte) uint64 {
	return max(1, xxhash.Sum64(key))
}

// maxTail is how many key hashes of the newest messages a machine keeps while a group orders by key: half a MiB. At the
// bound the older half goes; groups that are further behind are told by LearnKeys.
const maxTail = 65_536

// MaxLearn is the most key hashes that LearnKeys takes at once.
const MaxLearn = 16_384

// hashes are the key hashes of messages in a row, the first of which has the offset from.
type hashes struct {
	from uint64
	of   []uint64
}

func (h *hashes) end() uint64 { return h.from + uint64(len(h.of)) }

func (h *hashes) get(off uint64) (uint64, bool) {
	if off < h.from || off >= h.end() {
		return 0, false
	}
	return h.of[off-h.from], true
}

// append adds hashes from first on; what does not follow what is there takes its place.
func (h *hashes) append(first uint64, of []uint64, most int) {
	if first != h.end() {
		h.from, h.of = first, h.of[:0]
	}
	h.of = append(h.of, of...)
	if len(h.of) > most {
		drop := len(h.of) - most/2
		h.of = h.of[:copy(h.of, h.of[drop:])]
		h.from += uint64(drop)
	}
}

// WantsKeys says whether Append should be given keys: some group orders by them.
func (m *Machine) WantsKeys() bool { return m.ordered > 0 }

// LearnKeys tells a group that orders by key the key hashes (KeyHash, 0 for none) of messages from first on, because a
// grant said that it needs them. At most MaxLearn.
func (m *Machine) LearnKeys(id mq.GroupID, first uint64, of []uint64) {
	g := m.groups[id]
	if g == nil || g.keyed == nil || !m.leading {
		return
	}
	k := g.keyed
	k.piece = hashes{first, of[:min(len(of), MaxLearn)]}
	for off := range k.unknown {
		if key, ok := k.piece.get(off); ok {
			delete(k.unknown, off)
			x := g.out[off]
			x.key, x.keyKnown = key, true
			g.keyChanged(off, x)
		}
	}
	m.touch(g)
	m.done()
}

// orders makes or drops the overlay of a group, as its settings and this machine's role say.
func (m *Machine) orders(g *group) {
	want := m.leading && g.Settings.Ordering == mq.OrderingKey
	switch {
	case want && g.keyed == nil:
		m.ordered++
		g.rekey()
	case !want && g.keyed != nil:
		m.unorder(g)
		for off, x := range g.out {
			if x.listed, x.counted = false, false; x.state == StateReady {
				x.inAgain = true
				g.again[x.lane].push(off)
			}
		}
		m.touch(g)
	}
}

// unorder drops the overlay of a group.
func (m *Machine) unorder(g *group) {
	if g.keyed != nil {
		g.keyed = nil
		if m.ordered--; m.ordered == 0 {
			m.tail = hashes{}
		}
	}
}

// rekey makes the overlay of a group anew, from what is out: what is fresh is looked at again.
func (g *group) rekey() {
	k := &keyed{keys: map[uint64]*keyState{}, unknown: map[uint64]struct{}{}}
	for l := range k.candidates {
		k.candidates[l].less = func(a, b candidate) bool { return a.off < b.off }
		g.again[l].items = g.again[l].items[:0]
	}
	g.keyed = k
	for off, x := range g.out {
		if x.inAgain, x.listed, x.counted = false, false, false; x.state != StateDead {
			g.keyChanged(off, x)
		}
	}
	g.m.touch(g)
}

// look files fresh messages under their keys until there are n candidates. It says at which message it stopped because
// its key is not known.
func (m *Machine) look(g *group, n int) (need uint64, needs bool) {
	m.quiet = true
	defer func() { m.quiet = false }()
	k := g.keyed
	if len(k.unknown) > 0 {
		need = m.committed
		for off := range k.unknown {
			need = min(need, off)
		}
		return need, true
	}
	if m.lanes.used {
		n = max(n, maxAhead)
	}
	have, end := k.candidatesLeft(), g.limit()
	for have < n && k.parked() < MaxParked {
		low, lane := end, mq.LaneNormal
		for l := range mq.Lane(mq.Lanes) {
			if g.left[l] == 0 {
				continue
			}
			if off, ok := g.nextFresh(l, k.scan); ok && off < low {
				low, lane = off, l
			}
		}
		if low == end {
			return 0, false
		}
		run := min(g.freshRun(lane, low, uint64(n-have)), end-low)
		for to := low + run; low < to && k.parked() < MaxParked; low++ {
			key, ok := m.keyOf(k, low)
			if !ok {
				return low, true
			}
			k.scan = low + 1
			g.file(lane, low, key)
		}
		have = k.candidatesLeft()
	}
	return 0, false
}

func (m *Machine) keyOf(k *keyed, off uint64) (uint64, bool) {
	if key, ok := m.tail.get(off); ok {
		return key, true
	}
	return k.piece.get(off)
}

// file puts a fresh message under its key.
func (g *group) file(l mq.Lane, off, key uint64) {
	k := g.keyed
	if key == 0 {
		k.push(l, candidate{off: off, fresh: true})
		g.more = true
		return
	}
	s := k.state(key)
	i, _ := s.find(off)
	if s.offered && i == s.at {
		k.withdraw(s)
	}
	s.insert(i, off)
	k.fresh++
	g.offer(key, s)
}

// picked is a message and its key.
type picked struct{ off, key uint64 }

// pickKeyed is pick for a group that orders by key.
func (g *group) pickKeyed(l mq.Lane, n int, room *uint64, runs []Run, again bool) ([]Run, bool) {
	k := g.keyed
	h := &k.candidates[l]
	first := len(runs)
	var aside []candidate // fresh ones, when there is no room for them
	for n > 0 && len(h.items) > 0 {
		c := h.pop()
		x := g.out[c.off]
		if !g.stands(c, x) {
			continue
		}
		if x == nil && *room == 0 {
			aside = append(aside, c)
			continue
		}
		attempt := uint32(1)
		if x != nil {
			attempt = x.attempt + 1
		} else {
			*room--
		}
		switch {
		case c.key != 0:
			k.withdraw(k.keys[c.key])
		case x == nil:
			k.ready[l]--
		}
		again = again || attempt > 1
		g.m.picked = append(g.m.picked, picked{c.off, c.key})
		runs = appendRun(runs, first, c.off, 1, attempt)
		n--
	}
	for _, c := range aside {
		h.push(c)
	}
	return runs, again
}

// stands says whether what came up as a candidate is one.
func (g *group) stands(c candidate, x *message) bool {
	k := g.keyed
	if c.key != 0 {
		s := k.keys[c.key]
		return s != nil && s.offered && s.first() == c.off
	}
	if !c.fresh {
		if x != nil {
			x.inAgain = false
		}
		return x != nil && x.state == StateReady
	}
	l := g.m.lanes.of(c.off)
	if x == nil && g.isFresh(l, c.off) {
		return true
	}
	k.ready[l]-- // it was settled by a receipt that nobody knew
	return false
}

// takeKeys are the keys of what was picked, by offset, as they are written.
func (m *Machine) takeKeys() []uint64 {
	slices.SortFunc(m.picked, func(a, b picked) int { return cmp.Compare(a.off, b.off) })
	m.pickedKeys = m.pickedKeys[:0]
	for _, p := range m.picked {
		m.pickedKeys = append(m.pickedKeys, p.key)
	}
	m.picked = m.picked[:0]
	return m.pickedKeys
}

// prepare looks for n candidates, and says why there are fewer. blocked: none may be handed out before the key at need
// is known.
func (m *Machine) prepare(g *group, n int) (why Why, need uint64, blocked bool) {
	need, needs := m.look(g, n)
	switch {
	case needs:
		return WhyKeys, need, g.keyed.candidatesLeft() == 0 || len(g.keyed.unknown) > 0
	case g.keyed.parked() >= MaxParked:
		return WhyParked, 0, false
	}
	return WhyNothing, 0, false
}

// readyAhead is how many candidates are looked for to tell how many messages are ready.
const readyAhead = 1024

// canGiveKeyed is canGive for a group that orders by key, at most n: one, where a receive would ask for keys first.
func (m *Machine) canGiveKeyed(g *group, n int) int {
	if n == 0 {
		return 0
	}
	if _, _, blocked := m.prepare(g, min(n, readyAhead)); blocked {
		return 1
	}
	have := g.keyed.candidatesLeft()
	if g.unseen() {
		have++ // to be looked at
	}
	if m.freshRoom(g) == 0 {
		have = min(have, g.count[StateReady])
	}
	if m.lanes.used && !g.unseen() {
		have = min(have, m.shareable(g))
	}
	return min(n, have)
}
