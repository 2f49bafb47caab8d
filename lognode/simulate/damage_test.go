package simulate

import (
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// A damaged copy of a segment whose end is decided answers nobody who looks for what is left: not by its tail in memory
// either, which is from before the damage was met.
func TestDamagedCopyOfAnEndedSegmentIsUnknown(t *testing.T) {
	p := newPair(t)
	n := p.nodes[1]
	known := func() bool {
		t.Helper()
		var got State
		n.Seal(p.seg.ID, &Fence{p.seg.Partition, mq.Named{Number: 2, Revision: 3}}, func(s State) { got = s })
		p.run()
		return got.Known
	}
	n.copy(p.seg.ID, nil, p.seg.Base, nil, func(State) {}) // tells the end
	p.run()
	if !known() {
		t.Fatal("the copy is whole, and not known")
	}
	n.disk.segments[p.seg.ID].Damaged = true
	if known() {
		t.Fatal("the copy is damaged, and known")
	}
}
