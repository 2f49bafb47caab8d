package replica

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// prompt are followers that have on disk at once whatever they are sent.
type prompt struct{ o *one }

func (prompt) Heard(mq.StoreID) time.Time                       { return time.Now() }
func (prompt) Connected(mq.StoreID) bool                        { return true }
func (prompt) Client(to mq.StoreID) (mqpb.LogNodeClient, error) { return alone{}.Client(to) }
func (f prompt) Send(to mq.StoreID, t frame.Type, b link.Encoder) bool {
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

// A leader goes on at its followers' pace while its own disk hangs, until there is no room for what that has not written; what it
// counts for that is gone when it is written, or when nobody leads here any more.
func TestLeaderGoesOnWithoutItsDisk(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	hang := make(chan struct{}, 1)
	o.stop()
	o.dir = filepath.Join(t.TempDir(), "three")
	o.world = &world{topic: mq.DefaultTopicSettings()}
	o.peers, o.followers = prompt{o}, []mq.Replica{{Store: "b", Node: "b"}, {Store: "c", Node: "c"}}
	o.before = func(int64) { hang <- struct{}{}; <-hang }
	o.start()
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
