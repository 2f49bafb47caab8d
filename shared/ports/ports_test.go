package ports

import "testing"

// What another program listens on is nobody's port, and a block is one holder's until it is released.
func TestBlock(t *testing.T) {
	b, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := listen(b.First() + 1)
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	if p, err := b.Choose(map[int]bool{b.first + 2: true}); err != nil || p <= b.first+2 || p >= b.first+blockSize {
		t.Errorf("chose %d, %v in the block at %d", p, err, b.first)
	}
	if again := Retake(b.First()); again.guard != nil || again.First() != b.First() || again.Release() != nil {
		t.Errorf("a block was taken twice: %+v", again)
	}
	if other, err := Take(); err != nil || other.First() == b.First() {
		t.Errorf("the next one is %+v, %v", other, err)
	} else if err := other.Release(); err != nil {
		t.Error(err)
	}
	full := map[int]bool{}
	for p := b.first; p < b.first+blockSize; p++ {
		full[p] = true
	}
	if p, err := b.Choose(full); err == nil {
		t.Errorf("chose %d of a full block", p)
	}
	if err := b.Release(); err != nil {
		t.Fatal(err)
	}
	again := Retake(b.First())
	defer again.Release()
	if again.guard == nil {
		t.Error("a block that was released is not to be had")
	}
}
