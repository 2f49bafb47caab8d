package replica

import (
	"testing"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// Those who wait for a reading are bounded; who comes beyond that is told at once, and the others when it is done.
func TestSharedReadingIsBounded(t *testing.T) {
	t.Parallel()
	if (*sharers)(nil).join(func(error) { t.Error("called without a reading") }) {
		t.Error("joined a reading that is not there")
	}
	told, refused := 0, 0
	s := &sharers{}
	for range maxParked + 3 {
		if !s.join(func(err error) {
			switch {
			case err == nil:
				told++
			case mqerr.Is(err, mqerr.Overloaded):
				refused++
			}
		}) {
			t.Fatal("not joined")
		}
	}
	if told != 0 || refused != 3 {
		t.Errorf("before the reading is done %d are told and %d refused", told, refused)
	}
	if s.run(nil); told != maxParked || refused != 3 {
		t.Errorf("%d are told and %d refused", told, refused)
	}
}
