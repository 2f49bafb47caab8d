package replica

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/clocks"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// prompt are followers that have on disk at once whatever they are sent, until they are deaf.
type prompt struct {
	o    *one
	deaf *atomic.Bool
}

func (prompt) Heard(mq.StoreID) time.Time                       { return time.Now() }
func (prompt) Connected(mq.StoreID) bool                        { return true }
func (prompt) Client(to mq.StoreID) (mqpb.LogNodeClient, error) { return alone{}.Client(to) }
func (f prompt) Send(to mq.StoreID, t frame.Type, b link.Encoder) bool {
	if f.deaf.Load() {
		return true
	}
	ack := frame.Ack{Segment: f.o.next}
	if sent, ok := b.(*frame.Entries); ok {
		for _, data := range sent.Entries {
			e, err := mq.ParseEntry(data)
			if err != nil {
				f.o.t.Error(err)
				return false
			}
			ack.Tail = e.Next()
		}
	}
	f.o.p.Acked(to, ack)
	return true
}

// withPrompt is a leader of three replicas. Its own disk syncs unless something is in hang, which is taken out when it may go on.
func withPrompt(t *testing.T, deaf *atomic.Bool) (o *one, hang chan struct{}) {
	o = newOne(t)
	hang = make(chan struct{}, 1)
	o.stop()
	o.dir = filepath.Join(t.TempDir(), "three")
	o.world = &world{topic: mq.DefaultTopicSettings()}
	o.peers, o.followers = prompt{o, deaf}, []mq.Replica{{Store: "b", Node: "b"}, {Store: "c", Node: "c"}}
	o.before = func(int64) { hang <- struct{}{}; <-hang }
	o.start()
	return o, hang
}

// A leader goes on at its followers' pace while its own disk hangs, until there is no room for what that has not written; what it
// counts for that is gone when it is written, or when nobody leads here any more.
func TestLeaderGoesOnWithoutItsDisk(t *testing.T) {
	t.Parallel()
	o, hang := withPrompt(t, new(atomic.Bool))
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	written := func() {
		for o.env.Own.Load() != 0 || o.store.Waited() != 0 {
			<-tick.C
		}
	}
	o.publish("a")
	written()
	hang <- struct{}{} // from here on
	for range 3 {
		o.publish("b") // each in an entry of its own, none of which is on the disk here
	}
	large := string(make([]byte, 1<<20))
	answers := make(chan error, 12)
	for range cap(answers) {
		body, n := batchOf(large)
		o.p.Append(body, n, func(ft frame.Type, b link.Encoder) { answers <- answer{ft, b.AppendTo(nil)}.err() })
	}
	for range 8 {
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
	if n := o.env.Own.Load(); n < maxOwn || n > maxOwn+2<<20 {
		t.Errorf("%d bytes are on their way to the disk", n)
	}
	if len(answers) > 0 {
		t.Error("more was answered than there is room for")
	}
	<-hang
	for range 4 {
		if err := <-answers; err != nil {
			t.Fatal(err)
		}
	}
	written()
	hang <- struct{}{}
	o.publish("c")
	if o.env.Own.Load() == 0 {
		t.Error("nothing is on its way to a disk that hangs")
	}
	o.p.Close()
	if n := o.env.Own.Load(); n != 0 {
		t.Errorf("%d bytes are counted for nobody", n)
	}
	<-hang
}

// A leader finds its disk slow when its own copy has lacked for ten seconds something that is committed, while the others went on; not before,
// and not where theirs stand still as well: then no other leader would be quicker.
func TestLeaderFindsItsDiskSlow(t *testing.T) {
	t.Parallel()
	for name, deaf := range map[string]bool{"the others go on": false, "the others stand still, too": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stand := new(atomic.Bool)
			o, hang := withPrompt(t, stand)
			slow := func(now time.Duration) bool {
				found := make(chan bool, 1)
				o.p.post(func() {
					o.p.tellLate(o.p.lead, int64(now))
					found <- o.env.Slow.Load()
				})
				return <-found
			}
			const began = time.Hour
			hang <- struct{}{}
			o.publish("a")
			if slow(began) {
				t.Error("slow at once")
			}
			body, n := batchOf("b")
			answered := make(chan error, 1)
			stand.Store(deaf)
			o.p.Append(body, n, func(ft frame.Type, b link.Encoder) { answered <- answer{ft, b.AppendTo(nil)}.err() })
			if !deaf {
				if err := <-answered; err != nil {
					t.Fatal(err)
				}
			}
			if slow(began + lateAfter) {
				t.Error("slow after ten seconds, not more")
			}
			if got := slow(began + lateAfter + 1); got == deaf {
				t.Errorf("after more than ten seconds slow: %v", got)
			}
			<-hang
			o.stop()
			if deaf && <-answered == nil {
				t.Error("answered without a quorum")
			}
		})
	}
}

// A clock that is set right makes nobody late: time that nobody lived through is not counted.
func TestClockMakesNobodyLate(t *testing.T) {
	t.Parallel()
	deaf := new(atomic.Bool)
	o, _ := withPrompt(t, deaf)
	round := func(f func()) {
		if err := o.p.inOrder(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	o.publish("a")
	var late []mq.StoreID
	round(func() { o.env.Late = func(_ mq.SegmentID, who []mq.StoreID) { late = who } })
	deaf.Store(true)
	body, n := batchOf("b")
	o.p.Append(body, n, func(frame.Type, link.Encoder) {})
	for range 2 { // behind it, and behind the entry that is made of it
		round(func() {})
	}
	o.p.Retain()
	round(func() {})
	o.env.Clock.Settle(clocks.Word{Told: true, Ahead: -time.Hour})
	o.p.Retain()
	round(func() {
		if len(late) > 0 || o.env.Slow.Load() {
			t.Errorf("an hour that nobody lived through: %v are late, the own disk is slow: %v", late, o.env.Slow.Load())
		}
	})
}
