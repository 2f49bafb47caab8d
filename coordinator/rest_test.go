package coordinator

import (
	"maps"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// TestControllerRestsWhileNothingChanges: it looks again for each of the reasons that there are, and after a while for none:
// what it may have missed waits no longer than that.
func TestControllerRestsWhileNothingChanges(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	view := meta.NewView(nil, testLog(t))
	calm := looked{at: now, version: view.Version(), suspect: map[mq.StoreID]bool{"a": true}, due: now.Add(time.Second).UnixNano()}
	for name, c := range map[string]struct {
		change func(k *controller)
		after  time.Duration
		rests  bool
	}{
		"nothing":               {func(*controller) {}, time.Second - 1, true},
		"something is due":      {func(*controller) {}, time.Second, false},
		"nothing is due":        {func(k *controller) { k.looked.due = 0 }, lookEvery - 1, true},
		"for long":              {func(k *controller) { k.looked.due = 0 }, lookEvery, false},
		"the view":              {func(k *controller) { k.looked.version++ }, 0, false},
		"one more is suspect":   {func(k *controller) { k.suspect = map[mq.StoreID]bool{"a": true, "b": true} }, 0, false},
		"one answers again":     {func(k *controller) { k.suspect = map[mq.StoreID]bool{} }, 0, false},
		"suspects are the same": {func(k *controller) { k.suspect = maps.Clone(k.suspect) }, 0, true},
		"a batch was full":      {func(k *controller) { k.looked.due = 1 }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := &controller{watch: stopwatch{now}, Coordinator: &Coordinator{view: view, log: testLog(t)}, book: newBook(), suspect: maps.Clone(calm.suspect), looked: calm}
			c.change(k)
			if got := k.rests(now.Add(c.after)); got != c.rests {
				t.Errorf("rests: %v", got)
			}
		})
	}
}
