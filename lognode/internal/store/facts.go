package store

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/splashdam/splashdam/shared/mq"
)

// fact is one durable statement of the node about itself. Exactly one group of fields is set.
type fact struct {
	Store   mq.StoreID `json:"store,omitempty"`
	Cluster string     `json:"cluster,omitempty"`
	Boot    uint64     `json:"boot,omitempty"`
	// Frames is how many frames were recorded up to the one that this is in, Marks how many records of the ledger there were.
	Frames uint64 `json:"frames,omitempty"`
	Marks  uint64 `json:"marks,omitempty"`

	// Create is a creation record. Gen tells two creations under one id apart (a damaged replica is
	// removed and fetched again), and none comes twice, since lists of volumes still name those of removed segments: alone,
	// it is the last one given. First is the lowest volume that may hold entries of this one.
	Create *mq.Segment `json:"create,omitempty"`
	Gen    uint64      `json:"gen,omitempty"`
	First  uint32      `json:"first,omitempty"`

	Seal   mq.SegmentID `json:"seal,omitempty"`
	Remove mq.SegmentID `json:"remove,omitempty"`
	// Damage is a segment, of creation Gen, in which a read met damage. Its removal takes that away, and Mended: an end
	// was decided up to which it is intact.
	Damage mq.SegmentID `json:"damage,omitempty"`
	Mended mq.SegmentID `json:"mended,omitempty"`
	// Vague is a damaged segment, of creation Gen, of which a start could not tell how far it reached. That is not told by what
	// a later start finds: a volume may be set aside, and compaction leaves out what is broken.
	Vague mq.SegmentID `json:"vague,omitempty"`
	// Replacing is a segment of which a new copy is begun beside the damaged one: its entries, of creation Gen, lie in volumes
	// from First on. Create ends that; a start that does not find one forgets the new copy.
	Replacing mq.SegmentID `json:"replacing,omitempty"`
	// End is the decided end of segment ID.
	ID  mq.SegmentID `json:"id,omitempty"`
	End *mq.Position `json:"end,omitempty"`

	Partition *mq.PartitionID `json:"partition,omitempty"`
	Number    uint64          `json:"number,omitempty"`
	Revision  int64           `json:"revision,omitempty"`
}

// segmentFacts is what the facts say of one segment.
type segmentFacts struct {
	segment mq.Segment
	gen     uint64
	first   uint32
	seal    bool
	end     *mq.Position
	damaged bool
	vague   bool
	// below, if not 0, is the first volume that may hold entries of a replacement, of the first that was tried, and holds none of
	// this creation's but what compaction lists there.
	below uint32
}

// facts are the node's own facts: a framelog of JSON lists of facts, and what they add up to.
type facts struct {
	log *framelog

	mu       sync.Mutex // orders frames and the state below
	store    mq.StoreID
	cluster  string
	boot     uint64
	gen      uint64
	segments map[mq.SegmentID]segmentFacts
	named    map[mq.PartitionID]mq.Named
	frames   uint64 // how many were ever recorded
	marks    uint64 // how many records the ledger had when a frame told of it last
	ledger   *ledger
	durable  atomic.Uint64 // how many frames are synced
	weighed  int64         // how large the file was when it was last compared with its content
}

// factsRewriteBytes is how large the file may get beyond four times its content before it is written anew.
const factsRewriteBytes = 1 << 20

// openFacts reads the facts, makes the store id in a new directory, and raises the boot number, on disk,
// before anything else happens. Damage before the last frame is ErrFactsDamaged: a node that forgot a
// seal or an end must not answer as if there had been none. So it is when fewer frames are there than the
// ledger says were synced, and what is cut as torn is not all that is missing.
func openFacts(dir string, l *ledger) (*facts, error) {
	least := l.stand.facts
	f := &facts{ledger: l, segments: map[mq.SegmentID]segmentFacts{}, named: map[mq.PartitionID]mq.Named{}}
	path := filepath.Join(dir, "facts")
	_, statErr := os.Stat(path)
	fresh := errors.Is(statErr, fs.ErrNotExist)
	if _, err := os.Stat(filepath.Join(dir, "volumes")); err == nil && fresh {
		return nil, factsDamaged(dir, "%s is missing beside volumes", path)
	}
	log, holes, torn, err := openFramelog(path, f.replay)
	if file := (*fs.PathError)(nil); errors.As(err, &file) {
		return nil, err // of the system, about the file: nobody knows what is in it
	}
	if err != nil {
		return nil, factsDamaged(dir, "%w", err)
	}
	f.log = log
	switch {
	case holes > 0:
		err = factsDamaged(dir, "%d damaged places in %s", holes, path)
	case f.store == "" && !fresh && dirHolds(filepath.Join(dir, "volumes")):
		err = factsDamaged(dir, "%s names no store", path)
	case f.frames+uint64(torn) < least: // each frame takes more than a byte
		err = factsDamaged(dir, "%s is older than the ledger: %d of %d records are there", path, f.frames, least)
	case f.store == "":
		var id [16]byte
		rand.Read(id[:])
		err = f.record(fact{Store: mq.StoreID(hex.EncodeToString(id[:]))}, fact{Boot: 1})
	default:
		// What was cut as torn may be damage to the boot number of the last run, or of more: each takes more than a byte.
		boot := fact{Boot: f.boot + 1 + uint64(torn)}
		f.frames = max(f.frames, least)
		if err = f.record(boot, fact{Frames: f.frames + 1}); err == nil && torn > 0 {
			err = f.record(boot) // so that the next damage like that leaves this number to go on from
		}
	}
	if err != nil {
		log.close()
		return nil, err
	}
	return f, nil
}

// factsDamaged is the error of facts that can't be trusted, and says what to do.
func factsDamaged(dir, format string, args ...any) error {
	return fmt.Errorf("%w: %w. Move %s away and start the node with an empty directory: it comes back as a new one, and its segments are "+
		"copied from other replicas. What is on no other node is lost to it", ErrFactsDamaged, fmt.Errorf(format, args...), dir)
}

// dirHolds says whether a directory has anything in it.
func dirHolds(dir string) bool {
	names, err := os.ReadDir(dir)
	return err == nil && len(names) > 0
}

func (f *facts) replay(body []byte) error {
	f.frames++
	var list []fact
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("a frame is intact but not a list of facts: %w", err)
	}
	for _, c := range list {
		f.apply(c)
	}
	return nil
}

func (f *facts) apply(c fact) {
	switch {
	case c.Store != "":
		f.store = c.Store
	case c.Cluster != "":
		f.cluster = c.Cluster
	case c.Boot != 0:
		f.boot = max(f.boot, c.Boot)
	case c.Frames != 0:
		f.frames = max(f.frames, c.Frames)
	case c.Marks != 0:
		f.marks = max(f.marks, c.Marks)
	case c.Create != nil:
		s := segmentFacts{segment: *c.Create, gen: c.Gen, first: c.First, seal: c.Create.Sealed}
		if c.Create.Sealed {
			end := c.Create.End
			s.end = &end
		}
		f.segments[c.Create.ID] = s
		f.gen = max(f.gen, c.Gen)
	case c.Seal != 0:
		if s, ok := f.segments[c.Seal]; ok {
			s.seal = true
			f.segments[c.Seal] = s
		}
	case c.End != nil:
		if s, ok := f.segments[c.ID]; ok {
			s.seal, s.end = true, c.End
			f.segments[c.ID] = s
		}
	case c.Damage != 0:
		f.ofCreation(c.Damage, c.Gen, func(s *segmentFacts) { s.damaged = true })
	case c.Vague != 0:
		f.ofCreation(c.Vague, c.Gen, func(s *segmentFacts) { s.vague = true })
	case c.Mended != 0:
		f.ofCreation(c.Mended, c.Gen, func(s *segmentFacts) { s.damaged = false })
	case c.Remove != 0:
		delete(f.segments, c.Remove)
	case c.Replacing != 0:
		if s, ok := f.segments[c.Replacing]; ok {
			if s.below == 0 { // what lies in volumes from the first try on is of none but tries
				s.below = c.First
			}
			f.segments[c.Replacing] = s
		}
		f.gen = max(f.gen, c.Gen)
	case c.Partition != nil:
		if n := (mq.Named{Number: c.Number, Revision: c.Revision}); f.named[*c.Partition].Less(n) {
			f.named[*c.Partition] = n
		}
	case c.Gen != 0:
		f.gen = max(f.gen, c.Gen)
	}
}

// ofCreation changes what is known of a segment, if that is about the creation that is there.
func (f *facts) ofCreation(id mq.SegmentID, gen uint64, change func(*segmentFacts)) {
	if s, ok := f.segments[id]; ok && s.gen == gen {
		change(&s)
		f.segments[id] = s
	}
}

// record makes facts durable with one sync and applies them; all or none survive a crash.
func (f *facts) record(list ...fact) error {
	end, frames, err := f.write(list...)
	if err == nil {
		err = f.log.sync(end)
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.durable.Store(max(f.durable.Load(), frames))
	return nil
}

// write is record without the sync, for callers that order facts under a lock and sync outside of it.
// frames is how many were ever written.
func (f *facts) write(list ...fact) (end int64, frames uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if marks := f.ledger.durable.Load(); marks > f.marks {
		list = append(slices.Clip(list), fact{Marks: marks})
	}
	body, err := json.Marshal(list)
	if err != nil {
		return 0, 0, fmt.Errorf("store: facts: %w", err)
	}
	if len(body) > maxFrame {
		return 0, 0, fmt.Errorf("store: %d facts at once are too many", len(list))
	}
	end, err = f.log.write(appendFrame(nil, body))
	if err != nil {
		return 0, 0, err
	}
	f.frames++
	for _, c := range list {
		f.apply(c)
	}
	return end, f.frames, nil
}

// tidy writes the file anew when most of it is history.
func (f *facts) tidy() error {
	if f.log.size() < factsRewriteBytes {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// To know the content's size is to encode it: with ten thousand segments that is a tenth of a second, and this is asked
	// once a second.
	if f.log.size() < f.weighed+factsRewriteBytes/4 {
		return nil
	}
	content := f.content()
	f.weighed = f.log.size()
	if f.log.size() < factsRewriteBytes+4*int64(len(content)) {
		return nil
	}
	f.weighed = 0
	return f.log.rewrite(func() []byte { return content })
}

// content is the frames that say everything that still holds.
func (f *facts) content() []byte {
	list := []fact{{Store: f.store}, {Boot: f.boot}, {Gen: f.gen}}
	if f.cluster != "" {
		list = append(list, fact{Cluster: f.cluster})
	}
	for id, s := range f.segments {
		segment := s.segment
		list = append(list, fact{Create: &segment, Gen: s.gen, First: s.first})
		if s.seal {
			list = append(list, fact{Seal: id})
		}
		if s.end != nil {
			list = append(list, fact{ID: id, End: s.end})
		}
		if s.damaged {
			list = append(list, fact{Damage: id, Gen: s.gen})
		}
		if s.vague {
			list = append(list, fact{Vague: id, Gen: s.gen})
		}
		if s.below != 0 {
			list = append(list, fact{Replacing: id, First: s.below})
		}
	}
	for p, n := range f.named {
		list = append(list, fact{Partition: &p, Number: n.Number, Revision: n.Revision})
	}
	list = append(list, fact{Marks: f.marks}, fact{Frames: f.frames}) // the last one: those of the content count, too, when they are read
	var frames []byte
	const perFrame = 1024
	for len(list) > 0 {
		n := min(perFrame, len(list))
		body, err := json.Marshal(list[:n])
		if err != nil {
			// Not possible with these types; an empty frame list would lose facts.
			panic("store: facts do not encode: " + err.Error())
		}
		frames = appendFrame(frames, body)
		list = list[n:]
	}
	return frames
}
