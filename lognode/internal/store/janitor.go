package store

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/splashdam/splashdam/shared/beat"
)

// roll makes the next volume the active one when the active one is full, or with force. It is the
// committer's. The next one is opened ahead by the janitor once the active one is half full (an open volume costs memory);
// until it is there the active one grows, to twice its size at most, then the committer waits.
func (s *Store) roll(force bool) error {
	for {
		s.mu.Lock()
		old, next := s.active, s.next
		switch {
		case !force && !old.filled(2, s.cfg.VolumeBytes):
			ahead := next == nil && s.wantsNextLocked()
			s.mu.Unlock()
			if ahead {
				poke(s.pokeJan)
			}
			return nil
		case next != nil:
			old.rolled = true
			s.active, s.next = next, nil
			clear(s.activeParts)
			clear(s.activeSeen)
			s.mu.Unlock()
			s.metrics.rolled.Inc()
			poke(s.pokeJan)
			return nil
		}
		wait := force || old.filled(4, s.cfg.VolumeBytes)
		s.forced = s.forced || force
		s.mu.Unlock()
		if wait && s.space.full() {
			return ErrStorageFull // the janitor opens no volume on a full disk
		}
		poke(s.pokeJan)
		if !wait {
			return nil
		}
		select {
		case <-s.nextReady:
		case <-s.failure.done:
			return s.Err()
		}
	}
}

// janitorEvery is how often the janitor looks when nobody pokes it (the ballast, idle volumes).
const janitorEvery = 10 * time.Second

// janitorLoop looks after the volumes beside the committer's way. Its failures stop the store only where
// entries are at stake.
func (s *Store) janitorLoop() {
	tick := beat.NewTicker(janitorEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-s.pokeJan:
			s.tidyVolumes()
		case <-tick.C:
			s.tidyVolumes()
		case done := <-s.reclaim:
			s.tidyVolumes()
			close(done)
		}
	}
}

// Reclaim has the janitor look at the volumes now and returns when it has: what removed segments held and can be
// given back has been, next to what lies in the active volume and the one before it.
func (s *Store) Reclaim(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case s.reclaim <- done:
	case <-s.stop:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return s.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tidyVolumes does whatever is due. Called by the janitor only.
func (s *Store) tidyVolumes() {
	if s.Err() != nil {
		return
	}
	if err := s.openAhead(); err != nil {
		s.fail(err)
		return
	}
	poke(s.nextReady)
	s.retire()
	s.removeDead()
	s.compact()
	s.removeDead()
	s.closeIdle()
	s.space.tend()
	if err := s.facts.tidy(); err != nil {
		s.log.Warn("facts were not written anew", "error", err)
	}
}

// wantsNextLocked says whether the next volume will be needed soon; Store.mu is held.
func (s *Store) wantsNextLocked() bool { return s.forced || s.active.filled(1, s.cfg.VolumeBytes) }

// openAhead makes the next volume if there is none and one will be needed soon.
func (s *Store) openAhead() error {
	full := s.space.full()
	s.mu.Lock()
	if s.next != nil || full || !s.wantsNextLocked() {
		s.mu.Unlock()
		return nil
	}
	v := s.newVolumeLocked()
	s.mu.Unlock()
	if err := v.openForWriting(); err != nil {
		return fmt.Errorf("store: opening volume %d ahead: %w", v.number, err)
	}
	s.mu.Lock()
	s.volumes[v.number] = v
	s.next, s.forced = v, false
	s.mu.Unlock()
	return nil
}

// newVolumeLocked takes the next number; Store.mu is held.
func (s *Store) newVolumeLocked() *volume {
	s.number++
	return s.volumeOf(s.number)
}

// retire writes the lists of rolled volumes and closes their writing side. The one that was rolled last
// stays open a while longer, because its entries are the ones that readers near the tail want.
func (s *Store) retire() {
	s.mu.RLock()
	var rolled []*volume
	for _, v := range s.volumes {
		if v.rolled && !v.listed {
			rolled = append(rolled, v)
		}
	}
	s.mu.RUnlock()
	sort.Slice(rolled, func(i, j int) bool { return rolled[i].number < rolled[j].number })
	for i, v := range rolled {
		if i == len(rolled)-1 {
			return
		}
		if err := s.retireVolume(v); err != nil {
			s.fail(err)
			return
		}
	}
}

// retireVolume closes a rolled volume, unless readers are in it (a later pass will), and lists it. Close
// flushes what is in memory, so the list stands beside files that are whole.
func (s *Store) retireVolume(v *volume) error {
	closed, err := v.tryClose()
	if err == nil {
		err = v.log.err()
	}
	if err != nil {
		return fmt.Errorf("store: closing volume %d: %w", v.number, err)
	}
	if !closed {
		return nil
	}
	if err := s.listOf(v).write(s.root); err != nil {
		return err
	}
	s.mu.Lock()
	v.listed = true
	s.mu.Unlock()
	return nil
}

// listOf makes the list of a volume from the segments' parts.
func (s *Store) listOf(v *volume) *volumeList {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l := &volumeList{Volume: v.number, Bytes: v.bytes}
	for g := range s.copiesLocked {
		for _, p := range g.whole() {
			if p.vol == v {
				l.Parts = append(l.Parts, p.entry(g.facts.segment.ID, g.facts.gen))
			}
		}
	}
	return l
}

// removeDead removes the closed volumes in which no segment has anything.
func (s *Store) removeDead() {
	s.mu.Lock()
	var dead []*volume
	for number, v := range s.volumes {
		if v.rolled && v.parts == 0 {
			delete(s.volumes, number)
			dead = append(dead, v)
		}
	}
	s.mu.Unlock()
	for _, v := range dead {
		if err := v.remove(); err != nil {
			// The directory stays and is found dead again by the next start.
			s.log.Warn("a dead volume was not removed", "volume", v.number, "error", err)
			continue
		}
		s.metrics.removed.Inc()
	}
}

// closeIdle closes volumes that nobody has read from for the longest time, beyond MaxOpenVolumes.
func (s *Store) closeIdle() {
	s.mu.RLock()
	var open []*volume
	for _, v := range s.volumes {
		if v.listed && v.isOpen() {
			open = append(open, v)
		}
	}
	s.mu.RUnlock()
	if len(open) <= s.cfg.MaxOpenVolumes {
		return
	}
	sort.Slice(open, func(i, j int) bool { return open[i].idleSince().Before(open[j].idleSince()) })
	for _, v := range open[:len(open)-s.cfg.MaxOpenVolumes] {
		if _, err := v.tryClose(); err != nil {
			s.log.Warn("closing an idle volume", "volume", v.number, "error", err)
		}
	}
}

func (v *volume) isOpen() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.db != nil
}

func (v *volume) idleSince() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lastUse
}

// ledgerLoop records what moved: at most every LedgerEvery, and not at all while nothing moves.
func (s *Store) ledgerLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		select {
		case <-s.stop:
			return
		case <-s.pokeLedger:
		}
		if s.Err() != nil {
			return
		}
		err := s.ledger.record(s.collectMoved)
		if err == nil {
			err = s.ledger.tidy()
		}
		if err != nil && !errors.Is(err, ErrClosed) {
			s.fail(err)
			return
		}
		timer.Reset(s.cfg.LedgerEvery)
		select {
		case <-s.stop:
			return
		case <-timer.C:
		}
	}
}

// collectMoved takes the marks of the segments that moved. Ledger.mu is held, Store.mu is not.
func (s *Store) collectMoved() []mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	marks := make([]mark, 0, 1+len(s.moved))
	marks = append(marks, stand{volume: s.active.number, tables: uint32(s.active.tables)}.mark())
	for id := range s.moved {
		// A damaged segment keeps its old mark, which says that it was longer once.
		if g := s.segments[id]; g != nil && !g.damaged {
			marks = append(marks, g.mark())
		}
	}
	clear(s.moved)
	return marks
}
