package load

import (
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/client"
)

// What is early by its release or by its arrival is counted, what comes again is not.
func TestScheduleJudgesWhatCame(t *testing.T) {
	due := time.Now()
	ended := false
	a := &arrivals{due: map[string]time.Time{"early": due, "late": due, "soon": due}, release: newRecorder(window{}), delivery: newRecorder(window{}),
		whole: func() { ended = true }}
	all := a.came([]client.Delivery{{ID: "early", Timestamp: due.Add(-1)}, {ID: "late", Timestamp: due.Add(2 * time.Millisecond)}, {ID: "other"}},
		due.Add(5*time.Millisecond))
	if all || ended || a.early != 1 || a.release.messages != 2 || a.delivery.latencies.Max() < 4990 {
		t.Errorf("all %v, ended %v, %+v", all, ended, a)
	}
	again := a.came([]client.Delivery{{ID: "late", Timestamp: due.Add(-time.Hour)}, {ID: "soon", Timestamp: due}}, due.Add(-1))
	if !again || !ended || a.early != 2 || a.release.messages != 3 {
		t.Errorf("all %v, ended %v, %+v", again, ended, a)
	}
}
