package replica

import (
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

func (w *world) Owner(mq.GroupID, uint32) (string, uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.owner, w.generation
}

func (w *world) Assignment(mq.GroupID) (meta.Assignment, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
		if w.asked != nil {
			close(w.asked)
			w.asked = nil
		}
	}
	return meta.Assignment{Generation: w.generation}, w.changed
}

func (w *world) assign(owner string, generation uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owner, w.generation = owner, generation
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// receiveAs asks for one message in the name of a member.
func (o *one) receiveAs(member string, generation uint64) (got []got, err error) {
	o.t.Helper()
	o.handovers++
	a := ask(o.t, func(r Reply) {
		o.p.Receive(1, frame.Receive{Partition: testPartition, Group: 1, Max: 1, MaxBytes: 1 << 20, Handover: o.handovers,
			Member: member, Consumer: member, Generation: generation}, r)
	})
	if err := a.err(); err != nil {
		return nil, err
	}
	var f frame.Received
	if err := f.Parse(a.body); err != nil {
		o.t.Fatal(err)
	}
	return o.unpack(1, &f), nil
}

func assigned(s *mq.GroupSettings) { s.Mode = mq.ModeAssigned }

func TestOnlyTheOwnerReceives(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, assigned)
	o.publish("a", "b", "c")
	o.world.assign("one", 5)
	if _, err := o.receiveAs("", 0); !mqerr.Is(err, mqerr.NotMember) {
		t.Errorf("without a member: %v", err)
	}
	// A gateway that knows an older assignment than the leader: the leader's word holds, at once.
	if _, err := o.receiveAs("two", 4); !mqerr.Is(err, mqerr.NotMember) {
		t.Errorf("another one's partition: %v", err)
	}
	first, err := o.receiveAs("one", 5)
	if err != nil || len(first) != 1 || first[0].value != "a" {
		t.Fatalf("the owner: %v, %v", first, err)
	}
	// The hand-over: from one request to the next, without a wait. What the old owner has stays its own.
	o.world.assign("two", 6)
	if _, err := o.receiveAs("one", 6); !mqerr.Is(err, mqerr.NotMember) {
		t.Errorf("the old owner: %v", err)
	}
	second, err := o.receiveAs("two", 6)
	if err != nil || len(second) != 1 || second[0].value != "b" {
		t.Fatalf("the new owner: %v, %v", second, err)
	}
	if codes := o.settle(delivery.Ack, first[0], second[0]); codes[0] != mqerr.OK || codes[1] != mqerr.OK {
		t.Errorf("both ack what they have: %v", codes)
	}
}

// The gateway has seen an assignment before this node has: the receive waits for it instead of being refused.
func TestLeaderCatchesUpWithTheGateway(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, assigned)
	o.publish("a")
	o.world.assign("old", 1)
	o.inside(func(*leadership) { o.p.catchFor = time.Hour }) // as long as it takes this test
	asked := make(chan struct{})
	o.world.asked = asked
	answered := make(chan error, 1)
	go func() {
		m, err := o.receiveAs("new", 2)
		if err == nil && len(m) != 1 {
			err = mqerr.New(mqerr.Internal, "%d messages", len(m))
		}
		answered <- err
	}()
	<-asked // the receive waits
	o.world.assign("new", 2)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

// A node that does not hear of the assignment that the gateway claims refuses after a moment, and takes no harm.
func TestLeaderThatHearsNothingRefuses(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, assigned)
	o.publish("a")
	o.world.assign("old", 1)
	if _, err := o.receiveAs("new", 2); !mqerr.Is(err, mqerr.NotMember) {
		t.Errorf("%v", err)
	}
	if m, err := o.receiveAs("old", 1); err != nil || len(m) != 1 {
		t.Errorf("the owner as this node knows it: %v, %v", m, err)
	}
}

// An attempt of a group with members is in the journal before it is handed over: the next owner may be served by
// another leader.
func TestAttemptsOfAssignedGroupsSurviveACrash(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	o.group(1, assigned)
	o.publish("a")
	o.world.assign("one", 1)
	if m, err := o.receiveAs("one", 1); err != nil || len(m) != 1 {
		t.Fatal(m, err)
	}
	o.p.Handover(1, true, frame.Handover{Partition: testPartition, Group: 1, Handover: o.handovers})
	o.restart()
	if m, err := o.receiveAs("one", 1); err != nil || len(m) != 0 {
		t.Errorf("it is leased, and came again after a restart: %v, %v", m, err)
	}
}
