// Package checker decides whether a message queue kept its promises in a run: it is told of every publish
// and its answer, of every delivery and of every acknowledgement that was answered with success, and says
// at the end what was lost, invented, doubled, brought back or overtaken.
//
// It knows nothing of the queue but these events, so that a fault of the queue cannot hide in it. The
// values that are published are made by it (Next) and name themselves.
package checker

import (
	"fmt"
	"sync"
)

// Options of a run.
type Options struct {
	// Run tells the values of this run from those of others in the same topic.
	Run uint32
	// Fresh says that the topic was made for the run: a value of another run is then a phantom.
	Fresh bool
	// Disturbed says that processes are killed or cut off during the run. A first delivery that a crash
	// made the queue forget, or that a dead gateway gave back, may then come a second time as a first one:
	// FirstTwice and Overtaken are counted, but are no violations.
	Disturbed bool
	// MaxMessages bounds the memory (about 40 bytes each); at the bound Next says no. Default 5 million.
	MaxMessages int
	// MaxKeys bounds the numbers of keys. Default 65,536.
	MaxKeys int
}

// Checker gathers events; all methods may be called by any number of goroutines.
type Checker struct {
	options Options

	mu         sync.Mutex
	payloads   []payload // by id - 1
	partitions map[uint32]*partition
	keyHome    []uint32   // partition + 1 of each key that is stored; 0 for none
	fresh      [][]uint64 // per consumer, per key: offset + 1 of the last first delivery
	unacked    int        // stored and known to be, not acknowledged yet
	report     Report
}

// payload is what is known of one value that was sent.
type payload struct {
	hash     uint32
	key      uint32 // number + 1; 0 for none
	copies   uint8  // offsets at which it was seen
	unknowns uint8  // sends whose outcome is unknown: each may be a copy
	refused  bool   // an answer said that nothing was stored
	stored   bool   // an answer said where it is
}

// slot is what is known of one offset.
type slot struct {
	id         uint32 // of the payload; 0 for none yet
	stored     bool   // a publish was answered with this offset
	first      bool   // delivered as attempt 1
	acked      bool   // an acknowledgement was answered with success
	deliveries uint16
	fence      uint64 // of the delivery that was acknowledged
}

// partition holds slots in pieces, so that a topic that did not begin with this run costs nothing.
type partition struct {
	pieces map[uint64]*[pieceLength]slot
}

const pieceLength = 1 << 12

// New begins a run.
func New(o Options) *Checker {
	if o.MaxMessages <= 0 {
		o.MaxMessages = 5_000_000
	}
	if o.MaxKeys <= 0 {
		o.MaxKeys = 1 << 16
	}
	return &Checker{options: o, partitions: map[uint32]*partition{}, keyHome: make([]uint32, o.MaxKeys)}
}

func (c *Checker) slot(number uint32, offset uint64) *slot {
	p := c.partitions[number]
	if p == nil {
		p = &partition{pieces: map[uint64]*[pieceLength]slot{}}
		c.partitions[number] = p
	}
	piece := p.pieces[offset/pieceLength]
	if piece == nil {
		piece = new([pieceLength]slot)
		p.pieces[offset/pieceLength] = piece
	}
	return &piece[offset%pieceLength]
}

// NoKey is the key of a message without one.
const NoKey = -1

// Next makes the next value to publish, of size bytes (at least MinSize), and its id. A key is a number
// below MaxKeys or NoKey. Ids grow; the messages of a key must be sent in the order of their ids, each after
// the answer to the one before or in the same batch. ok is false when the run has as many messages as it may.
func (c *Checker) Next(dst []byte, key, size int) (value []byte, id uint32, ok bool) {
	if key < NoKey || key >= c.options.MaxKeys {
		return dst, 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.payloads) >= c.options.MaxMessages {
		return dst, 0, false
	}
	id = uint32(len(c.payloads) + 1)
	value, hash := appendValue(dst, c.options.Run, id, size)
	c.payloads = append(c.payloads, payload{hash: hash, key: uint32(key + 1)})
	return value, id, true
}

// Stored files the answer that a message is committed at an offset.
func (c *Checker) Stored(id, number uint32, offset uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := &c.payloads[id-1]
	s := c.slot(number, offset)
	c.assign(s, id, number, offset)
	if p.stored {
		c.note(&c.report.Phantom, "message %d was answered a second time, with %d/%d", id, number, offset)
	}
	p.stored = true
	if s.stored {
		return // two values at one offset, which assign has noted
	}
	s.stored = true
	c.report.Stored++
	if !s.acked {
		c.unacked++
	}
	if p.key == 0 {
		return
	}
	home := &c.keyHome[p.key-1]
	if *home != 0 && *home != number+1 {
		c.note(&c.report.KeyMoved, "key %d is in partition %d and in %d", p.key-1, *home-1, number)
	}
	*home = number + 1
}

// Refused files an answer that says that nothing was stored. The same value may be sent again.
func (c *Checker) Refused(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.payloads[id-1].refused = true
	c.report.Refused++
}

// Unknown files that a send was not answered, or with an unknown outcome: it may be stored, once.
func (c *Checker) Unknown(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := &c.payloads[id-1]; p.unknowns < 255 {
		p.unknowns++
	}
	c.report.Unknown++
}

// assign ties an offset to a value.
func (c *Checker) assign(s *slot, id, number uint32, offset uint64) {
	switch s.id {
	case id:
	case 0:
		s.id = id
		if p := &c.payloads[id-1]; p.copies < 255 {
			p.copies++
		}
	default:
		c.note(&c.report.TwoValues, "%d/%d holds message %d and message %d", number, offset, s.id, id)
	}
}

// Unacked is how many messages are known to be stored and not acknowledged yet.
func (c *Checker) Unacked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unacked
}

// note counts a finding and keeps the first few in words.
func (c *Checker) note(count *int, format string, args ...any) {
	*count++
	if *count <= maxExamples {
		c.report.Examples = append(c.report.Examples, fmt.Sprintf(format, args...))
	}
}
