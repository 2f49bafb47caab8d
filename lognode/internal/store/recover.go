package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/splashdam/splashdam/shared/mq"
)

// recovery finds the volumes and puts the segments together from what is in them, at opening, before any
// goroutine runs.
//
// Volumes with a list were closed in order: the list says what is in them. The others (the active one,
// after a crash perhaps one or two more) are made durable and their keys are read. Then every segment is
// compared with its mark in the ledger, see settle.go.
type recovery struct {
	s     *Store
	lists map[uint32]*volumeList
	found map[uint64][]*found // by the segment's generation
	// unlisted are the volumes that were read, ascending; seen is what has keys in each.
	unlisted []*volume
	lost     bool // a volume could not be opened
	// blind is the last of those of which nobody knows what was in it: perhaps entries that the ledger does not tell of yet.
	blind uint32
	aside []*volume // those to be set aside, once what that means for segments is on disk
	// mended are those in which something was broken and is made anew.
	mended []*volume
	holes  int // places where the ledger lost marks
	// told is, by the segment's generation, how far the volumes' lists say that it was synced.
	told map[uint64]mq.Position
	// news are what the facts must say and do not.
	news    []fact
	damaged int
}

func recoverVolumes(s *Store, holes int) error {
	r := &recovery{s: s, lists: map[uint32]*volumeList{}, found: map[uint64][]*found{}, holes: holes, told: map[uint64]mq.Position{}}
	numbers, err := r.tidyDirectory()
	if err != nil {
		return err
	}
	for id, f := range s.facts.segments {
		s.segments[id] = newSegment(f)
		s.number = max(s.number, f.first) // a new volume must not lie below one that a segment begins at
	}
	if err := r.pruneMarks(holes); err != nil {
		return err
	}
	for _, n := range numbers {
		if err := r.openVolume(n); err != nil {
			return err
		}
	}
	if err := r.settleAll(); err != nil {
		return err
	}
	if err := r.setAside(); err != nil {
		return err
	}
	if err := r.chooseActive(); err != nil {
		return err
	}
	if holes > 0 {
		// Written anew, so that the same damage is not reported at every start.
		return s.ledger.log.rewrite(s.ledger.content)
	}
	return nil
}

// tidyDirectory removes what a crash left half-way and returns the numbers of the volumes that are there.
func (r *recovery) tidyDirectory() ([]uint32, error) {
	s := r.s
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	dirs, lists := map[uint32]bool{}, []uint32{}
	for _, e := range entries {
		name := e.Name()
		base, ext, _ := strings.Cut(name, ".")
		n, ok := parseVolumeName(base)
		if !ok {
			s.log.Warn("a file that is not the store's lies among the volumes", "name", name)
			continue
		}
		s.number = max(s.number, n)
		switch ext {
		case "":
			dirs[n] = true
		case "list":
			lists = append(lists, n)
		case "tmp", "dead", "list.tmp":
			if err := os.RemoveAll(filepath.Join(s.root, name)); err != nil {
				return nil, fmt.Errorf("store: %w", err)
			}
		case "broken":
			s.log.Warn("a volume that could not be opened lies here; remove it when its segments are whole again", "name", name)
		}
	}
	if err := r.readLists(lists, dirs); err != nil {
		return nil, err
	}
	numbers := make([]uint32, 0, len(dirs))
	for n := range dirs {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return numbers, nil
}

// readLists reads the lists, and finishes or forgets the compaction that a crash interrupted.
func (r *recovery) readLists(numbers []uint32, dirs map[uint32]bool) error {
	s := r.s
	for _, n := range numbers {
		l, err := readList(s.root, n)
		if err != nil {
			s.log.Warn("a volume's list is damaged; the volume is read instead", "volume", n, "error", err)
			continue
		}
		if err := r.readTold(l); err != nil {
			return err
		}
		if dirs[n] {
			r.lists[n] = l
			continue
		}
		if !slices.ContainsFunc(l.Replaces, func(old uint32) bool { return dirs[old] }) {
			s.log.Error("a volume is missing", "volume", n)
			r.lost = true
		}
		if err := removeIfThere(listPath(s.root, n)); err != nil {
			return err
		}
	}
	for _, l := range r.lists {
		for _, old := range l.Replaces {
			if !dirs[old] {
				continue
			}
			if err := s.volumeOf(old).remove(); err != nil {
				return err
			}
			delete(dirs, old)
			delete(r.lists, old)
		}
	}
	return nil
}

// readTold takes what a list says of how far segments were synced. The ledger says it, too, but may be damaged together with the volume.
func (r *recovery) readTold(l *volumeList) error {
	for i := range l.Parts {
		p := &l.Parts[i]
		if p.Gen > r.s.facts.gen {
			return r.olderFacts(p.Segment)
		}
		if r.told[p.Gen].Before(p.Next) {
			r.told[p.Gen] = p.Next
		}
	}
	return nil
}

// olderFacts is the error of facts that lost their last lines: something that was written later names a creation that they don't know.
func (r *recovery) olderFacts(id mq.SegmentID) error {
	return factsDamaged(r.s.cfg.Dir, "they lost their last lines: entries of segment %d were synced, and they do not name it", id)
}

// pruneMarks forgets marks of other segments, and reports a ledger that lost some.
func (r *recovery) pruneMarks(holes int) error {
	s := r.s
	for id, m := range s.ledger.marks {
		g := s.segments[id]
		switch {
		case m.gen > s.facts.gen:
			return r.olderFacts(id)
		case g != nil && m.gen > g.facts.gen:
			// That a replacement was committed is lost. What it replaced was damaged, and is what there is.
			s.log.Error("the copy that took the place of a damaged one is not in the facts", "segment", id)
			g.damaged, g.facts.vague, g.facts.seal = true, true, g.facts.seal || m.seal
			r.news = append(r.news, fact{Vague: id, Gen: g.facts.gen}) // that it is damaged is recorded with all that are
			if m.seal {
				r.news = append(r.news, fact{Seal: id})
			}
			delete(s.ledger.marks, id)
		case g == nil || g.facts.gen != m.gen:
			delete(s.ledger.marks, id)
		case m.seal && !g.facts.seal:
			// The facts lost their last line; the ledger's copy of the flag stands in.
			s.log.Error("a seal flag was restored from the ledger", "segment", id)
			g.facts.seal = true
		}
	}
	if holes > 0 {
		s.metrics.marksLost.Add(float64(holes))
		s.log.Error("the ledger is damaged: marks were lost, damage to entries they covered may show as torn", "places", holes)
	}
	return nil
}

// openVolume takes a volume in: a closed one by its list, any other by reading its keys. One that can't
// be opened is set aside under another name; what it held is then missed by the ledger.
func (r *recovery) openVolume(n uint32) error {
	s := r.s
	v := s.volumeOf(n)
	l := r.lists[n]
	if l != nil && !l.Active {
		v.rolled, v.listed, v.bytes = true, true, l.Bytes
		s.volumes[n] = v
		r.takeList(v, l)
		return nil
	}
	listed := v.keep
	v.keep = r.keeps(n, l)
	err := v.openForWriting()
	v.keep = listed
	if err == nil {
		s.volumes[n] = v
		r.unlisted = append(r.unlisted, v)
		if v.torn && r.holes > 0 && l == nil {
			// Without the marks, what was broken looks like what a crash left half written.
			r.lost, r.blind = true, max(r.blind, n)
		}
		if err = r.noteMended(v, l); err == nil {
			err = r.scanKeys(v, l)
		}
	}
	if err == nil || !errors.Is(err, ErrDamaged) {
		return err
	}
	s.log.Error("a volume can't be opened and is set aside; its segments are damaged", "volume", n, "error", err)
	r.lost = true
	if l == nil {
		r.blind = n
	}
	r.leaveOut(v)
	return nil
}

// leaveOut takes a broken volume out again.
func (r *recovery) leaveOut(v *volume) {
	s := r.s
	delete(s.volumes, v.number)
	r.unlisted = slices.DeleteFunc(r.unlisted, func(u *volume) bool { return u == v })
	for gen, list := range r.found {
		r.found[gen] = slices.DeleteFunc(list, func(f *found) bool { return f.vol == v })
	}
	if err := v.close(); err != nil {
		s.log.Warn("closing a broken volume", "volume", v.number, "error", err)
	}
	r.aside = append(r.aside, v)
}

// setAside gives the broken volumes and what was mended other names, so that later starts do not find them.
func (r *recovery) setAside() error {
	for _, v := range r.mended {
		if err := errors.Join(removeIfThere(listPath(r.s.root, v.number)), syncDir(r.s.root), toldOf(v.dir)); err != nil {
			return err
		}
	}
	if len(r.aside) == 0 {
		return nil
	}
	for _, v := range r.aside {
		if err := os.Rename(v.dir, v.dir+".broken"); err != nil {
			return fmt.Errorf("store: %w", err)
		}
		if err := removeIfThere(listPath(r.s.root, v.number)); err != nil {
			return err
		}
	}
	return syncDir(r.s.root)
}

// takeList takes the parts of segments that still exist.
func (r *recovery) takeList(v *volume, l *volumeList) {
	for i := range l.Parts {
		p := &l.Parts[i]
		g := r.s.segments[p.Segment]
		if g == nil || g.facts.gen != p.Gen {
			continue
		}
		r.found[p.Gen] = append(r.found[p.Gen], &found{part: *p.part(v), known: true})
	}
}

// chooseActive makes the last unlisted volume with room the active one. After damage a new one is made:
// files that lost something are not written to again.
func (r *recovery) chooseActive() error {
	s := r.s
	usable := r.unlisted
	if r.lost || r.damaged > 0 || len(r.mended) > 0 {
		usable = nil
	}
	var floor uint32 // below the volume that a segment begins at, its keys would be taken for an earlier creation's
	for _, f := range s.facts.segments {
		floor = max(floor, f.first)
	}
	for _, v := range slices.Backward(usable) {
		switch {
		case v.number < floor || v.log.err() != nil || v.filled(2, s.cfg.VolumeBytes):
		case v.bytes > 0:
			s.active = v
		case s.active == nil:
			s.next = v // an empty one that was opened ahead; the lowest such is kept
		}
		if s.active != nil {
			break
		}
	}
	if s.active == nil {
		s.active, s.next = s.next, nil
	}
	if s.active == nil {
		v := s.newVolumeLocked()
		if err := v.openForWriting(); err != nil {
			return err
		}
		s.volumes[v.number] = v
		s.active = v
	}
	for _, v := range r.unlisted {
		v.rolled = v != s.active && v != s.next
		v.log.forget()
	}
	for id, g := range s.segments {
		for _, p := range g.parts {
			if p.vol == s.active {
				s.activeParts[id] = p
			}
		}
	}
	return r.noteSeen()
}
