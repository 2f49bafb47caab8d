package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

var testPartition = mq.PartitionID{Topic: 3, Number: 1}

// world is the etcd of a test: one partition's chain.
type world struct {
	mu     sync.Mutex
	head   mq.Head
	sealed []mq.Segment
	groups []meta.Group
	topic  mq.TopicSettings
	force  meta.Force
	judged chan struct{} // sent to when a leader begins to judge what is lost
	broken error         // what reading the chain fails with
	// watch hears of the head when a leader has changed it.
	watch func(mq.Head)
	// others are the heads of other partitions, which have no sealed segments.
	others map[mq.PartitionID]mq.Head

	owner      string // of the partition, in every group
	generation uint64
	changed    chan struct{} // nil until somebody waits
	asked      chan struct{} // if not nil, closed when somebody begins to wait
}

func (w *world) Topic(mq.TopicID) (meta.Topic, bool) { return meta.Topic{Settings: w.topic}, true }

func (w *world) DropSegments(_ context.Context, h mq.Head, oldest uint64) (mq.Head, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.Revision != w.head.Revision {
		return h, errors.New("the head changed")
	}
	w.sealed = slices.DeleteFunc(w.sealed, func(s mq.Segment) bool { return s.Number < oldest })
	w.head.Oldest = oldest
	w.head.Revision++
	return w.head, nil
}

func (w *world) Chain(_ context.Context, p mq.PartitionID) (mq.Head, []mq.Segment, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h, ok := w.others[p]; ok {
		return h, nil, nil
	}
	return w.head, append([]mq.Segment(nil), w.sealed...), w.broken
}

func (w *world) GetForce(context.Context, mq.PartitionID) (meta.Force, error) {
	select {
	case w.judged <- struct{}{}:
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.force, nil
}

func (w *world) ForgetForce(context.Context, mq.PartitionID) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.force = meta.Force{}
	return nil
}

func (w *world) RecordLost(_ context.Context, h mq.Head, s mq.Segment, held mq.Position, by meta.Force) (mq.Head, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.Revision != w.head.Revision {
		return h, mqerr.New(mqerr.PreconditionFailed, "the head changed")
	}
	for i := range w.sealed {
		if w.sealed[i].ID == s.ID {
			w.sealed[i].Held = &held
		}
	}
	if w.head.Last != nil && w.head.Last.ID == s.ID {
		last := *w.head.Last
		last.Held = &held
		w.head.Last = &last
	}
	w.head.Holes = append(slices.Clone(w.head.Holes), mq.Hole{From: held, To: s.End, Segment: s.ID, By: by.By})
	w.head.Revision++
	w.watch(w.head)
	return w.head, nil
}

func (w *world) Groups(mq.TopicID) []meta.Group { return w.groups }

// alone is a node without peers.
type alone struct{}

func (alone) Send(mq.StoreID, frame.Type, link.Encoder) bool { return false }
func (alone) Heard(mq.StoreID) time.Time                     { return time.Time{} }
func (alone) Connected(mq.StoreID) bool                      { return false }
func (alone) Client(mq.StoreID) (mqpb.LogNodeClient, error) {
	return nil, errors.New("no peers in this test")
}

// one is a single node with one partition on a real store.
type one struct {
	handovers uint64 // of receives, the last number; tests run side by side, each with its own
	t         testing.TB
	dir       string
	world     *world
	store     *store.Store
	env       *Env
	p         *Partition
	wants     chan mq.SegmentID
	woken     chan mq.GroupID
	next      mq.SegmentID
	log       *slog.Logger  // of the partitions; nil for none
	used      atomic.Uint64 // share of the disk beyond the usual 10 %
	before    func(int64)   // store.Config.BeforeSync
	peers     Peers         // nil for none
	followers []mq.Replica  // of the segments that open makes; with any the quorum is 2
	vanish    bool          // etcd goes away when it has named the next segment
}

func newOne(t testing.TB) *one {
	o := &one{t: t, dir: filepath.Join(t.TempDir(), "node"), world: &world{topic: mq.DefaultTopicSettings()}, wants: make(chan mq.SegmentID, 100),
		woken: make(chan mq.GroupID, 1000)}
	o.start()
	t.Cleanup(func() { o.stop() })
	return o
}

func (o *one) start() {
	o.t.Helper()
	o.boot()
	o.open()
}

// boot opens the store and the partition; nobody has said anything of segments yet.
func (o *one) boot() {
	o.t.Helper()
	cfg := store.DefaultConfig(o.dir)
	cfg.BallastBytes, cfg.VolumeBytes = 0, 8<<20
	cfg.SpaceEvery = -1
	cfg.DiskUsage = func(string) (uint64, uint64, error) { return 10 + o.used.Load(), 100, nil }
	cfg.BeforeSync = o.before
	s, err := store.Open(cfg, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		o.t.Fatal(err)
	}
	o.store = s
	clock := knownClock()
	o.env = &Env{Log: slog.New(slog.DiscardHandler), Store: s, Peers: alone{}, Chain: o.world, Clock: clock, Timers: NewTimers(clock), Cache: &EntryCache{},
		Wake:     func(_ mq.PartitionID, g mq.GroupID) { o.woken <- g },
		WantSeal: func(id mq.SegmentID, _ string) { o.wants <- id },
		Opening:  func(mq.SegmentID, bool) {}, Late: func(mq.SegmentID, []mq.StoreID) {},
		SealHere: o.sealed,
		Metrics:  NewMetrics(prometheus.NewRegistry()), SegmentBytes: 512 << 20, Readers: make(chan struct{}, 8)}
	if o.log != nil {
		o.env.Log = o.log
	}
	if o.peers != nil {
		o.env.Peers = o.peers
	}
	o.p = New(o.env, testPartition)
	o.world.watch = o.p.SetHead
	for _, info := range s.Segments() {
		o.p.Adopt(info)
	}
}

// open does what the controller does at a start and at a roll: seal what is open, create and name the next.
func (o *one) open() {
	o.t.Helper()
	w := o.world
	w.mu.Lock()
	head, chain := w.head, w.sealed
	w.mu.Unlock()
	compared := head.Revision
	if s := head.Open; s != nil {
		done := make(chan bool, 1)
		o.p.BeginSeal(s.ID, func(known bool) { done <- known })
		if !<-done {
			o.t.Fatal("the copy is unknown")
		}
		if err := o.store.SealSegments([]mq.SegmentID{s.ID}); err != nil {
			o.t.Fatal(err)
		}
		state := make(chan State, 1)
		o.p.Flagged(s.ID, func(st State) { state <- st })
		sealed := *s
		sealed.Sealed, sealed.End = true, (<-state).Tail
		if sealed.End != sealed.Base {
			head.Last = &sealed
			chain = append(slices.Clone(chain), sealed)
		}
	}
	o.next++
	head.Next++
	head.Revision++
	head.Partition = testPartition
	id := o.store.Identity()
	seg := mq.Segment{ID: o.next, Partition: testPartition, Number: head.Next, Replicas: append([]mq.Replica{{Store: id.Store, Node: "n"}}, o.followers...),
		Quorum: 1 + min(1, len(o.followers)), Leader: id, Compared: compared}
	if head.Last != nil {
		seg.Base = head.Last.End
	}
	head.Open = &seg
	if err := o.store.CreateSegments([]mq.Segment{seg}); err != nil {
		o.t.Fatal(err)
	}
	info, _ := o.store.Segment(seg.ID)
	o.p.Adopt(info)
	o.p.Foresee(o.t.Context(), &seg, compared)
	w.mu.Lock()
	w.head, w.sealed = head, chain
	if o.vanish {
		w.broken = errors.New("etcd is away")
	}
	w.mu.Unlock()
	o.p.SetHead(head)
}

func (o *one) stop() {
	if o.store == nil {
		return
	}
	o.p.Close()
	o.env.Timers.Close()
	if err := o.store.Close(); err != nil {
		o.t.Error(err)
	}
	o.store = nil
}

func (o *one) restart() {
	o.stop()
	o.start()
}

// answer waits for one reply.
type answer struct {
	t    frame.Type
	body []byte
}

func ask(t testing.TB, do func(Reply)) answer {
	t.Helper()
	ch := make(chan answer, 1)
	do(func(ft frame.Type, body link.Encoder) { ch <- answer{ft, body.AppendTo(nil)} })
	return <-ch
}

func (a answer) err() error {
	if a.t != frame.TypeError {
		return nil
	}
	var e frame.Error
	if err := e.Parse(a.body); err != nil {
		return err
	}
	return e.Err()
}

func batchOf(values ...string) ([]byte, int) {
	var b mq.BatchBuilder
	for _, v := range values {
		b.Add(&mq.Message{Value: []byte(v), Lane: mq.LaneNormal})
	}
	return b.AppendTo(nil, "producer", "gateway", mq.CodecNone, nil), len(values)
}

func (o *one) publish(values ...string) frame.Appended {
	o.t.Helper()
	body, n := batchOf(values...)
	a := ask(o.t, func(r Reply) { o.p.Append(body, n, r) })
	if err := a.err(); err != nil {
		o.t.Fatal(err)
	}
	var f frame.Appended
	if err := f.Parse(a.body); err != nil {
		o.t.Fatal(err)
	}
	return f
}

func (o *one) group(id mq.GroupID, change func(*mq.GroupSettings)) {
	o.t.Helper()
	c := delivery.GroupConfig{ID: id, Name: fmt.Sprint("g", id), Version: 1, Settings: mq.DefaultGroupSettings()}
	if change != nil {
		change(&c.Settings)
	}
	ch := make(chan error, 1)
	o.p.EnsureGroup(c, true, func(err error) { ch <- err })
	if err := <-ch; err != nil {
		o.t.Fatal(err)
	}
}

// got is a received message.
type got struct {
	value   string
	attempt uint32
	receipt mq.Receipt
}

func (o *one) receive(g mq.GroupID, most int) []got {
	o.t.Helper()
	o.handovers++
	a := ask(o.t, func(r Reply) {
		o.p.Receive(1, frame.Receive{Partition: testPartition, Group: g, Max: uint32(most), MaxBytes: 4 << 20, Handover: o.handovers}, r)
	})
	if err := a.err(); err != nil {
		o.t.Fatal(err)
	}
	var f frame.Received
	if err := f.Parse(a.body); err != nil {
		o.t.Fatal(err)
	}
	return o.unpack(g, &f)
}

func (o *one) unpack(g mq.GroupID, f *frame.Received) []got {
	o.t.Helper()
	values := map[uint64]string{}
	for _, c := range f.Chunks {
		b, err := mq.ParseBatch(c.Batch)
		if err != nil {
			o.t.Fatal(err)
		}
		err = b.Each(b.Packed(), func(i int, m *mq.Message) bool {
			at := c.First + uint64(i)
			if c.Sliced {
				at = c.First + uint64(c.Ordinals[i])
			}
			values[at] = string(m.Value)
			return true
		})
		if err != nil {
			o.t.Fatal(err)
		}
	}
	var out []got
	for _, r := range f.Runs {
		for i := range uint64(r.Count) {
			v, ok := values[r.First+i]
			if !ok {
				o.t.Fatalf("offset %d is in a run but in no chunk", r.First+i)
			}
			out = append(out, got{v, r.Attempt, mq.Receipt{Partition: testPartition, Offset: r.First + i, Group: g,
				Generation: f.Generation, Segment: f.Segment, Counter: r.Counter + i}})
		}
	}
	return out
}

func (o *one) settle(how delivery.Outcome, list ...got) []mqerr.Code {
	o.t.Helper()
	items := make([]delivery.SettleItem, len(list))
	for i, g := range list {
		items[i] = delivery.SettleItem{Receipt: g.receipt, Outcome: how}
	}
	return o.settleItems(items)
}

func (o *one) settleItems(items []delivery.SettleItem) []mqerr.Code {
	o.t.Helper()
	a := ask(o.t, func(r Reply) { o.p.Settle(items, make([]mqerr.Code, len(items)), r) })
	if err := a.err(); err != nil {
		o.t.Fatal(err)
	}
	var f frame.Settled
	if err := f.Parse(a.body); err != nil {
		o.t.Fatal(err)
	}
	return f.Codes
}
