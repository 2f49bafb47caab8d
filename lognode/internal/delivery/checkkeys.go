package delivery

import (
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// checkKeys tests the overlay of a group that orders by key: every message that is out is filed, at most the first one
// of a key is a candidate, and the counts are right.
func (g *group) checkKeys() error {
	k := g.keyed
	if k == nil {
		return nil
	}
	leased, again, offeredAgain := map[uint64]int{}, 0, 0
	for off, x := range g.out {
		if err := g.checkFiled(off, x); err != nil {
			return err
		}
		if x.keyKnown && x.key != 0 && x.state == StateLeased {
			leased[x.key]++
		}
		if x.keyKnown && x.key != 0 && x.state == StateReady {
			again++
		}
	}
	fresh, offered := 0, 0
	var ready [mq.Lanes]int
	for key, s := range k.keys {
		if !slices.IsSorted(s.list[s.at:]) || s.leased != leased[key] || s.len() == 0 {
			return fmt.Errorf("key %x has %v, %d leased, counted as %d", key, s.list[s.at:], leased[key], s.leased)
		}
		for _, off := range s.list[s.at:] {
			if g.out[off] != nil {
				continue
			}
			if fresh++; !g.isFresh(g.m.lanes.of(off), off) || off >= k.scan {
				return fmt.Errorf("offset %d is filed under key %x and settled, or not looked at (from %d)", off, key, k.scan)
			}
		}
		x := g.out[s.first()]
		if can := s.leased == 0 && (x == nil || x.state == StateReady); can != s.offered || s.offered && s.offeredFresh != (x == nil) {
			return fmt.Errorf("the first of key %x, offset %d, is a candidate %v, fresh %v", key, s.first(), s.offered, s.offeredFresh)
		}
		if s.offered {
			ready[s.lane]++
			if s.offeredFresh {
				offered++
			} else {
				offeredAgain++
			}
		}
	}
	for l := range k.candidates {
		held := map[uint64]bool{}
		for _, c := range k.candidates[l].items {
			held[c.off] = true
			if c.key == 0 && (c.fresh || g.out[c.off] != nil && g.out[c.off].state == StateReady) {
				ready[l]++
			}
		}
		for key, s := range k.keys {
			if s.offered && int(s.lane) == l && !held[s.first()] {
				return fmt.Errorf("the candidate of key %x, offset %d, is not in the heap", key, s.first())
			}
		}
	}
	if fresh != k.fresh || offered != k.offered || ready != k.ready || again != k.again || offeredAgain != k.offeredAgain {
		return fmt.Errorf("fresh %d, offered %d, ready %v, again %d, offered again %d are counted as %d, %d, %v, %d, %d", fresh, offered, ready,
			again, offeredAgain, k.fresh, k.offered, k.ready, k.again, k.offeredAgain)
	}
	if n := len(g.parkedFrom(0)); n != k.parked()+k.parkedAgain() {
		return fmt.Errorf("%d are listed as parked, %d fresh and %d other ones are counted", n, k.parked(), k.parkedAgain())
	}
	return nil
}

func (g *group) checkFiled(off uint64, x *message) error {
	k := g.keyed
	_, unknown := k.unknown[off]
	filed := false
	if s := k.keys[x.key]; s != nil && x.keyKnown {
		_, filed = s.find(off)
	}
	alive := x.state != StateDead
	switch {
	case unknown == x.keyKnown && alive, unknown && !alive:
		return fmt.Errorf("offset %d is %s, its key known %v, waited for %v", off, x.state, x.keyKnown, unknown)
	case x.keyKnown && x.key != 0 && (filed != alive || x.listed != alive || x.counted != (x.state == StateLeased || x.state == StateReady)):
		return fmt.Errorf("offset %d is %s, filed %v, listed %v, counted %v", off, x.state, filed, x.listed, x.counted)
	}
	return nil
}
