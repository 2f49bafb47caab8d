package load

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/loadtest/checker"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// memberLoops is how many receives each member has open.
const memberLoops = 2

// team is the members of the group. One goroutine uses it.
type team struct {
	run     *rebalanceRun
	ctx     context.Context
	members map[string]*member
}

// team makes the first members.
func (r *rebalanceRun) team(ctx context.Context) (*team, error) {
	t := &team{run: r, ctx: ctx, members: map[string]*member{}}
	for i := range r.Members {
		if err := t.join(memberName(i + 1)); err != nil {
			return t, err
		}
	}
	return t, nil
}

func memberName(i int) string { return "member-" + strconv.Itoa(i) }

func (t *team) join(name string) error {
	m, err := t.run.newMember(t.ctx, name)
	if err == nil {
		t.members[name] = m
	}
	return err
}

// leave ends a member in good order: it leaves, and settles what it has.
func (t *team) leave(name string) error {
	m := t.members[name]
	delete(t.members, name)
	return m.leave(t.ctx)
}

// kill ends a member as kill -9 does: its connections break, and it says nothing.
func (t *team) kill(name string) {
	m := t.members[name]
	delete(t.members, name)
	m.cut.now()
	m.stop()
	_ = m.leave(t.ctx) // ends its goroutines; nothing of it reaches anybody
}

func (t *team) stop() {
	for name := range t.members {
		_ = t.leave(name) // the topic goes next
	}
}

// member is one consumer with connections of its own.
type member struct {
	run     *rebalanceRun
	name    string
	client  *client.Client
	group   *client.Member
	cut     *cutter
	stop    context.CancelFunc
	leaving atomic.Bool
	loops   sync.WaitGroup
}

func (r *rebalanceRun) newMember(ctx context.Context, name string) (*member, error) {
	m := &member{run: r, name: name, cut: &cutter{conns: map[net.Conn]bool{}}}
	transport := client.NewTransport()
	m.cut.dial = transport.DialContext
	transport.DialContext = m.cut.connect
	var err error
	m.client, err = client.New(client.Options{Servers: r.Server, UserAgent: "splashdam-loadtest", HTTP: &http.Client{Transport: transport},
		Retry: client.Retry{Elapsed: 2 * time.Second}})
	if err != nil {
		return nil, err
	}
	ctx, m.stop = context.WithCancel(ctx)
	if m.group, err = m.client.Member(ctx, r.target.topic, r.Group, api.JoinInput{Name: name, TTL: api.Duration(r.TTL)}, nil); err != nil {
		m.stop()
		return nil, err
	}
	for range memberLoops {
		number := r.number()
		m.loops.Go(func() { m.consume(ctx, number) })
	}
	return m, nil
}

func (r *rebalanceRun) number() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loops++
	return r.loops - 1
}

func (m *member) leave(ctx context.Context) error {
	err := m.group.Leave(ctx)
	m.leaving.Store(true)
	m.loops.Wait()
	m.stop()
	m.client.Close()
	return err
}

// consume receives and settles until the member leaves or is killed.
func (m *member) consume(ctx context.Context, number int) {
	for ctx.Err() == nil && !m.leaving.Load() {
		got, err := m.client.Receive(ctx, m.run.target.topic, m.run.Group, api.ReceiveRequest{Max: 100, Wait: api.Duration(time.Second),
			Lease: api.Duration(rebalanceLease), Member: m.name})
		if err != nil {
			if client.IsNotMember(err) {
				m.group.Lost()
			}
			pause(ctx, 20*time.Millisecond)
			continue
		}
		m.settle(ctx, number, got)
	}
}

// settle files what came, acknowledges it, and files that.
func (m *member) settle(ctx context.Context, number int, got []client.Delivery) {
	if len(got) == 0 {
		return
	}
	var request api.SettleRequest
	fences := make([]uint64, len(got))
	for i := range got {
		d := &got[i]
		fences[i], _ = checker.ParseFence(d.Fence) // what can't be read is lower than all, and shows
		m.run.check.Delivered(checker.Delivery{Consumer: number, Partition: d.Partition, Offset: d.Offset, Attempt: d.Attempt,
			Fence: fences[i], Value: d.Value})
		request.Ack = append(request.Ack, d.Receipt)
	}
	m.run.arrived(m.name, got)
	results, err := m.client.Settle(ctx, request)
	if err != nil { // they come again when their leases end, if it was not carried out
		m.run.mu.Lock()
		defer m.run.mu.Unlock()
		m.run.unsure += len(got)
		return
	}
	for i := range results {
		if results[i] == nil {
			m.run.check.Acked(got[i].Partition, got[i].Offset, fences[i])
		}
	}
}

func (r *rebalanceRun) arrived(name string, got []client.Delivery) {
	at := time.Since(r.start)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range got {
		p := got[i].Partition
		r.delivered[p] = append(r.delivered[p], arrival{at: at, member: name})
	}
}

// cutter breaks the connections of a member and makes no more.
type cutter struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu    sync.Mutex
	done  bool
	conns map[net.Conn]bool
}

var errCut = errors.New("load: the member is dead")

func (c *cutter) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return nil, errors.Join(errCut, conn.Close())
	}
	c.conns[conn] = true
	return conn, nil
}

func (c *cutter) now() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = true
	for conn := range c.conns {
		_ = conn.Close() // that it breaks is the point
	}
}
