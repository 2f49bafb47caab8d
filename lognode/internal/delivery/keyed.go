package delivery

import (
	"cmp"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// Order by key. In a group that orders by key at most one message of a key is leased at a time, and the messages of a
// key are handed out in the order of their offsets, across lanes: a message waits (is parked) while an earlier one of its
// key is neither settled nor dead. Messages without a key are not ordered.
//
// What is leased, waits for its retry or is ready again carries its key's hash in the journal (delivered records and
// checkpoints). All else is this overlay of the leader: it looks at the fresh messages once, in the order of their
// offsets and over all lanes (scan), and files each under its key. The first one of a key is a candidate for a hand-out,
// the others are parked behind it; whatever settles, fails or returns a message of a key offers the next one at once. A
// parked message stays fresh for the journal, a hole before the early ones that were handed out behind it, so the next
// leader finds it by scanning again from the fresh pointers.
//
// Rejected: parked messages in the journal (a record for each that is passed over); a look through what is parked at
// each receive (museum 33: quadratic behind a stuck key); keys instead of their hashes (a collision only lets a
// message wait that need not).
type keyed struct {
	// keys are those that have a message which is known, not settled and not dead.
	keys map[uint64]*keyState
	// scan: the fresh messages below it are known.
	scan uint64
	// candidates may be handed out, by lane, the lowest offset first; among them some that may no more. ready counts
	// those that may.
	candidates [mq.Lanes]heap[candidate]
	ready      [mq.Lanes]int
	// fresh counts the fresh messages that are filed under a key, offered those of them that are candidates; again and
	// offeredAgain those that are ready after an attempt. The differences are parked.
	fresh, offered, again, offeredAgain int
	// unknown are the messages that are out and whose key nobody knows: handed out before the group ordered by key, or
	// known from a receipt only. While there are any nothing is handed out.
	unknown map[uint64]struct{}
	piece   hashes // of messages that are no longer in Machine.tail
	free    []*keyState
}

const (
	// MaxParked is how many fresh messages of a group wait behind others of their key in one partition. At that
	// number no further ones are looked at, also of other keys, until one of these is handed out.
	MaxParked = 10_000
	// maxAhead is how many candidates are looked for where lanes are in use: lanes hold within about as many
	// messages that come next. Without lanes no more are looked for than a receive asks for.
	maxAhead = 16_384
)

// candidate is a message that may be handed out. The key is 0 for one without.
type candidate struct {
	off, key uint64
	fresh    bool
}

// keyState is what is known of a key.
type keyState struct {
	// list has the messages of the key that are neither settled nor dead, ascending, from at on.
	list   []uint64
	at     int
	leased int
	// offered says that the first one is a candidate: in this lane, and fresh.
	offered      bool
	offeredFresh bool
	lane         mq.Lane
}

func (s *keyState) len() int      { return len(s.list) - s.at }
func (s *keyState) first() uint64 { return s.list[s.at] }

// find is the place of an offset in list, or where it belongs.
func (s *keyState) find(off uint64) (int, bool) {
	low, high := s.at, len(s.list)
	for low < high {
		if mid := (low + high) / 2; s.list[mid] < off {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < len(s.list) && s.list[low] == off
}

func (s *keyState) insert(i int, off uint64) {
	s.list = append(s.list, off)
	copy(s.list[i+1:], s.list[i:])
	s.list[i] = off
}

func (s *keyState) remove(off uint64) bool {
	i, ok := s.find(off)
	if !ok {
		return false
	}
	if i > s.at {
		s.list = append(s.list[:i], s.list[i+1:]...)
		return true
	}
	if s.at++; s.at == len(s.list) {
		s.list, s.at = s.list[:0], 0
	} else if s.at > 64 && s.at > len(s.list)/2 {
		s.list = s.list[:copy(s.list, s.list[s.at:])]
		s.at = 0
	}
	return true
}

func (k *keyed) state(key uint64) *keyState {
	s := k.keys[key]
	if s == nil {
		if n := len(k.free); n > 0 {
			s, k.free = k.free[n-1], k.free[:n-1]
		} else {
			s = new(keyState)
		}
		k.keys[key] = s
	}
	return s
}

// parked is how many fresh messages wait behind others of their key.
func (k *keyed) parked() int { return k.fresh - k.offered }

// parkedAgain is how many messages that were handed out before wait so: one of a lower offset was redriven, say.
func (k *keyed) parkedAgain() int { return k.again - k.offeredAgain }

// candidatesLeft is how many messages may be handed out.
func (k *keyed) candidatesLeft() (n int) {
	for _, r := range k.ready {
		n += r
	}
	return n
}

func (k *keyed) push(l mq.Lane, c candidate) {
	h := &k.candidates[l]
	if tooStale(len(h.items), k.ready[l]) {
		h.prune(k.mayHold)
	}
	h.push(c)
	k.ready[l]++
}

// mayHold says whether a candidate may still be one. Those without a key are told from what they are when they come up.
func (k *keyed) mayHold(c candidate) bool {
	s := k.keys[c.key]
	return c.key == 0 || s != nil && s.offered && s.first() == c.off
}

// offer makes the first message of a key a candidate if it may be handed out, or takes back that it is one. It
// forgets a key without messages.
func (g *group) offer(key uint64, s *keyState) {
	k := g.keyed
	can := s.leased == 0 && s.len() > 0
	var x *message
	if can {
		if x = g.out[s.first()]; x != nil {
			can = x.state == StateReady
		}
	}
	if s.offered && !can {
		k.withdraw(s)
	}
	if can && !s.offered {
		off := s.first()
		l := g.m.lanes.of(off)
		if x != nil {
			l = x.lane
		}
		s.offered, s.offeredFresh, s.lane = true, x == nil, l
		if x == nil {
			k.offered++
		} else {
			k.offeredAgain++
		}
		k.push(l, candidate{off, key, x == nil})
		g.more = true
		g.m.touch(g)
	}
	if s.len() == 0 && s.leased == 0 {
		delete(k.keys, key)
		*s = keyState{list: s.list[:0]}
		if cap(s.list) <= 64 {
			k.free = append(k.free, s)
		}
	}
}

// withdraw says that the first message of a key is no candidate any more.
func (k *keyed) withdraw(s *keyState) {
	s.offered = false
	k.ready[s.lane]--
	if s.offeredFresh {
		s.offeredFresh = false
		k.offered--
	} else {
		k.offeredAgain--
	}
}

// keyChanged files a message that has entered a state.
func (g *group) keyChanged(off uint64, x *message) {
	k := g.keyed
	if k == nil {
		return
	}
	if !x.keyKnown && !k.identify(off, x) {
		if x.state == StateDead {
			delete(k.unknown, off)
		} else {
			k.unknown[off] = struct{}{}
		}
		return
	}
	if x.key == 0 {
		if x.state != StateReady {
			return
		}
		if g.more = true; x.inAgain {
			k.ready[x.lane]++
			return
		}
		x.inAgain = true
		k.push(x.lane, candidate{off: off})
		return
	}
	s := k.state(x.key)
	if !x.listed {
		x.listed = true
		switch i, ok := s.find(off); {
		case !ok:
			if s.offered && i == s.at {
				k.withdraw(s) // another one is the first now
			}
			s.insert(i, off)
		default:
			k.fresh--
			if s.offeredFresh && off == s.first() {
				s.offeredFresh = false
				k.offered--
				k.offeredAgain++
			}
		}
	}
	switch x.state {
	case StateLeased:
		s.leased++
		x.counted = true
	case StateReady:
		if !x.counted {
			k.again++
			x.counted = true
		}
	case StateDead:
		k.unlist(s, off)
		x.listed = false
	}
	g.offer(x.key, s)
}

// unlist takes a message out of its key's list.
func (k *keyed) unlist(s *keyState, off uint64) {
	if s.offered && s.first() == off {
		k.withdraw(s)
	}
	s.remove(off)
}

// keyLeft notes that a message is leaving its state.
func (g *group) keyLeft(x *message) {
	k := g.keyed
	if k == nil || !x.keyKnown {
		return
	}
	if x.counted {
		x.counted = false
		if x.state == StateReady {
			k.again--
		} else {
			k.keys[x.key].leased--
		}
	}
	if x.key == 0 && x.state == StateReady {
		k.ready[x.lane]--
	}
}

// keyGone forgets a message that is settled.
func (g *group) keyGone(off uint64, x *message) {
	k := g.keyed
	if k == nil {
		return
	}
	delete(k.unknown, off)
	if x.keyKnown && x.listed {
		s := k.keys[x.key]
		k.unlist(s, off)
		g.offer(x.key, s)
	}
}

// freshGone forgets a fresh message that was settled without having been handed out by this leader.
func (g *group) freshGone(off uint64) {
	k := g.keyed
	if k == nil || off >= k.scan {
		return
	}
	for key, s := range k.keys { // rare, and the key is known nowhere else
		if _, ok := s.find(off); ok {
			k.unlist(s, off)
			k.fresh--
			g.offer(key, s)
			return
		}
	}
}

// identify finds the key of a message that was fresh until now and is known.
func (k *keyed) identify(off uint64, x *message) bool {
	if off >= k.scan {
		return false
	}
	for key, s := range k.keys {
		if _, ok := s.find(off); ok {
			x.key, x.keyKnown = key, true
			return true
		}
	}
	return false
}

// parkedFrom lists the messages from an offset on that wait behind others of their key, by offset.
func (g *group) parkedFrom(from uint64) (out []HeldMessage) {
	if g.keyed == nil {
		return nil
	}
	for _, s := range g.keyed.keys {
		if s.offered && s.len() == 1 || s.list[len(s.list)-1] < from {
			continue
		}
		behind := s.first()
		for _, off := range s.list[s.at:] {
			if x := g.out[off]; x != nil && x.state == StateLeased {
				behind = off
				break
			}
		}
		for _, off := range s.list[s.at:] {
			if x := g.out[off]; off >= from && off != behind && (x == nil || x.state == StateReady) {
				h := g.held(off)
				h.State, h.Behind = StateParked, behind
				out = append(out, h)
			}
		}
	}
	slices.SortFunc(out, func(a, b HeldMessage) int { return cmp.Compare(a.Offset, b.Offset) })
	return out
}
