package lognode

import (
	"testing"

	"github.com/splashdam/splashdam/lognode/internal/store"
)

// copies is a store that counts how often it is gone through.
type copies struct {
	damaged []store.SegmentInfo
	damages uint64
	lists   int
}

func (c *copies) Unended() []store.SegmentInfo { c.lists++; return c.damaged }
func (c *copies) Damages() uint64              { return c.damages }

// A node looks for damaged copies once a second; with ten thousand segments that are whole it must not list them each time.
func TestWholeCopiesAreNotListedAgainAndAgain(t *testing.T) {
	c := &copies{}
	d := damagedOpen{store: c}
	look := func(what string, held, lists int) {
		t.Helper()
		if got := d.list(); len(got) != held || c.lists != lists {
			t.Errorf("%s: %d copies, listed %d times in all, want %d and %d", what, len(got), c.lists, held, lists)
		}
	}
	look("at first", 0, 1)
	look("nothing has happened", 0, 1)
	c.damaged, c.damages = make([]store.SegmentInfo, 1), 1 // a read found it
	look("one was found", 1, 2)
	look("it is damaged still", 1, 3)
	c.damaged = nil
	look("it was mended, or its end decided", 0, 4)
	look("and nothing else happened", 0, 4)

	c = &copies{damaged: make([]store.SegmentInfo, 2)} // found at the start, which Damages does not count
	d = damagedOpen{store: c}
	look("found at the start", 2, 1)
	look("and they are damaged still", 2, 2)
}
