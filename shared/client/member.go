package client

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// JoinGroup makes the caller a member of an assigned group, which is made on first use. It must call again (JoinGroup,
// Heartbeat or Receive with the member's name) within the ttl that is answered. Client.Member does that by itself.
func (c *Client) JoinGroup(ctx context.Context, topic, group string, in api.JoinInput) (api.Membership, error) {
	// With a name joining twice is joining once; without, a lost answer leaves a member that expires.
	return fetch[api.Membership](ctx, c, http.MethodPost, pathOf("topics", topic, "groups", group, "members"), in, true)
}

// Heartbeat says that a member lives and answers what it owns; with in.Wait, when that is something else than at
// in.Generation. IsNotMember tells the errors after which to join again.
func (c *Client) Heartbeat(ctx context.Context, topic, group, member string, in api.HeartbeatInput) (api.Membership, error) {
	return c.heartbeat(ctx, topic, group, member, in, waitSilence)
}

// heartbeat is a Heartbeat whose gateway may be silent for so long while it waits, before it is asked whether it lives.
func (c *Client) heartbeat(ctx context.Context, topic, group, member string, in api.HeartbeatInput, quiet time.Duration) (out api.Membership, err error) {
	q, err := newCall(http.MethodPost, pathOf("topics", topic, "groups", group, "members", member, "heartbeat"), in, true)
	if err != nil {
		return out, err
	}
	if in.Wait > 0 {
		q.quiet = quiet
	}
	_, err = c.exchange(ctx, q, &out)
	return out, err
}

// LeaveGroup ends a membership; the partitions go to the others at once. What is leased stays leased.
func (c *Client) LeaveGroup(ctx context.Context, topic, group, member string) error {
	return c.do(ctx, http.MethodDelete, pathOf("topics", topic, "groups", group, "members", member), nil, nil, true)
}

// Members lists who is in a group and owns which partitions.
func (c *Client) Members(ctx context.Context, topic, group string) (api.MemberList, error) {
	return fetch[api.MemberList](ctx, c, http.MethodGet, pathOf("topics", topic, "groups", group, "members"), nil, true)
}

// IsNotMember says whether a heartbeat or a receive failed because the member is none any more: it should join again.
func IsNotMember(err error) bool {
	return IsCode(err, mqerr.NotMember) || IsCode(err, mqerr.MemberExpired)
}

const (
	// heartbeatWait is how long a heartbeat waits for another assignment; the member lives meanwhile.
	heartbeatWait = 20 * time.Second
	// leaveWait bounds leaving; who could not leave expires.
	leaveWait = 5 * time.Second
)

// Member is a membership that keeps itself: heartbeats, and joining again under the same name when it was lost. Its
// methods may be called by any goroutine.
type Member struct {
	client       *Client
	topic, group string
	in           api.JoinInput
	onChange     func([]uint32)

	lost   chan struct{} // capacity 1: somebody was told that the membership is over
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu    sync.Mutex
	state api.Membership
}

// Member joins an assigned group and stays in it until Leave. onChange, if not nil, is called with the partitions that
// the member owns, first by Member itself and then by its goroutine each time that they change; it should not block.
func (c *Client) Member(ctx context.Context, topic, group string, in api.JoinInput, onChange func([]uint32)) (*Member, error) {
	state, err := c.JoinGroup(ctx, topic, group, in)
	if err != nil {
		return nil, err
	}
	in.Name = state.Member
	if onChange == nil {
		onChange = func([]uint32) {}
	}
	m := &Member{client: c, topic: topic, group: group, in: in, onChange: onChange, lost: make(chan struct{}, 1), state: state}
	onChange(slices.Clone(state.Assignment))
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	m.cancel = cancel
	m.done.Go(func() { m.run(run) })
	return m, nil
}

// Name is what receives of the member name it.
func (m *Member) Name() string { return m.in.Name }

// Partitions are those that it owns, as far as known here.
func (m *Member) Partitions() []uint32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.state.Assignment)
}

// Lost is to be called when a receive failed with an error that IsNotMember: the member joins again now instead of at
// its next heartbeat.
func (m *Member) Lost() {
	select {
	case m.lost <- struct{}{}:
	default:
	}
}

// Leave ends the membership and the goroutine. An error says that the server was not told: the member expires.
func (m *Member) Leave(ctx context.Context) error {
	m.cancel()
	m.done.Wait()
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	return m.client.LeaveGroup(ctx, m.topic, m.group, m.in.Name)
}

// run heartbeats until ctx ends.
func (m *Member) run(ctx context.Context) {
	pauses := m.client.retry.pauses()
	for ctx.Err() == nil {
		next, err := m.beat(ctx)
		if IsNotMember(err) {
			next, err = m.client.JoinGroup(ctx, m.topic, m.group, m.in)
		}
		if err == nil {
			pauses.Reset()
			m.take(next)
			continue
		}
		if ctx.Err() == nil {
			m.client.log.Warn("a member is not heard, trying again", "topic", m.topic, "group", m.group, "member", m.in.Name, "err", err)
			sleep(ctx, pauses.NextBackOff())
		}
	}
}

// beat is one heartbeat, ended early when the membership is said to be lost.
func (m *Member) beat(ctx context.Context) (api.Membership, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watch sync.WaitGroup
	var lost bool
	watch.Go(func() {
		select {
		case <-m.lost:
			lost = true
			cancel()
		case <-ctx.Done():
		}
	})
	m.mu.Lock()
	generation, ttl := m.state.Generation, time.Duration(m.state.TTL)
	m.mu.Unlock()
	// A frozen gateway keeps nobody alive: with the usual ttl the member is heard of elsewhere before that has passed.
	quiet := min(max(ttl/3, time.Second), waitSilence)
	next, err := m.client.heartbeat(ctx, m.topic, m.group, m.in.Name, api.HeartbeatInput{Generation: generation, Wait: api.Duration(heartbeatWait)}, quiet)
	cancel()
	watch.Wait()
	if lost {
		return next, &Error{Code: mqerr.MemberExpired.String()}
	}
	return next, err
}

func (m *Member) take(next api.Membership) {
	m.mu.Lock()
	changed := !slices.Equal(m.state.Assignment, next.Assignment)
	m.state = next
	m.mu.Unlock()
	if changed {
		m.onChange(slices.Clone(next.Assignment))
	}
}
