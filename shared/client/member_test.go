package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// memberServer plays the calls of members; groupServer plays the rest. What a member owns is what the test says.
type memberServer struct {
	groupServer
	mu      sync.Mutex
	owns    api.Membership
	changed chan struct{} // closed and replaced when owns changes
	gone    bool          // the member is not known until it joins
	log     []string      // "join worker", "leave worker", "receive worker", in order
}

func newMemberServer(owns ...uint32) *memberServer {
	return &memberServer{owns: api.Membership{TTL: api.Duration(10 * time.Second), Assignment: owns, Generation: 1}, changed: make(chan struct{})}
}

func (s *memberServer) note(what, member string) { s.log = append(s.log, what+" "+member) }

func (s *memberServer) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *memberServer) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *memberServer) answer(n int, r *http.Request, body []byte) (*http.Response, error) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/heartbeat"):
		return s.heartbeat(r, body)
	case strings.Contains(r.URL.Path, "/members"):
		return s.joinOrLeave(r, body)
	case strings.HasSuffix(r.URL.Path, "/receive"):
		var in api.ReceiveRequest
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.note("receive", in.Member)
		gone := s.gone
		s.mu.Unlock()
		if gone {
			return refusal(410, "member_expired", false), nil
		}
	}
	return s.groupServer.answer(n, r, body)
}

func (s *memberServer) joinOrLeave(r *http.Request, body []byte) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodDelete {
		s.note("leave", r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		return reply(204, ""), nil
	}
	var in api.JoinInput
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if in.Name == "" {
		in.Name = "m-random"
	}
	s.note("join", in.Name)
	s.owns.Member, s.gone = in.Name, false
	return s.membership(), nil
}

func (s *memberServer) membership() *http.Response {
	b, _ := json.Marshal(s.owns)
	return reply(200, string(b))
}

func (s *memberServer) heartbeat(r *http.Request, body []byte) (*http.Response, error) {
	var in api.HeartbeatInput
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	timeout := time.After(time.Duration(in.Wait))
	for {
		s.mu.Lock()
		changed := s.changed
		switch {
		case s.gone:
			s.mu.Unlock()
			return refusal(410, "member_expired", false), nil
		case s.owns.Generation > in.Generation:
			defer s.mu.Unlock()
			return s.membership(), nil
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-timeout:
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.membership(), nil
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func TestMemberFollowsItsAssignment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemberServer(0, 1)
		c := over(t, &wire{answer: s.answer}, Options{})
		var told []string
		m, err := c.Member(t.Context(), "t", "g", api.JoinInput{}, func(p []uint32) { told = append(told, fmt.Sprint(p)) })
		if err != nil {
			t.Fatal(err)
		}
		if m.Name() != "m-random" {
			t.Errorf("name %q", m.Name())
		}
		time.Sleep(time.Minute) // nothing happens for three heartbeats
		s.set(func() { s.owns.Generation, s.owns.Assignment = 2, []uint32{1} })
		synctest.Wait()
		// It expires and joins again under its name, with other partitions than before.
		s.set(func() { s.gone, s.owns.Generation, s.owns.Assignment = true, 5, []uint32{3} })
		synctest.Wait()
		if want := []string{"[0 1]", "[1]", "[3]"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		if p := m.Partitions(); !slices.Equal(p, []uint32{3}) {
			t.Errorf("owns %v", p)
		}
		if err := m.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if want := []string{"join m-random", "join m-random", "leave m-random"}; !slices.Equal(s.seen(), want) {
			t.Errorf("%q, want %q", s.seen(), want)
		}
	})
}

// A consumer that stops leaves at once, so that its partitions go on elsewhere, and still settles what it has.
func TestConsumerLeavesAndThenDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemberServer(0)
		s.waiting = []string{"slow"}
		c := over(t, &wire{answer: s.answer}, Options{})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		began := make(chan struct{})
		var leftFirst bool
		done := make(chan error, 1)
		go func() {
			done <- c.Consumer("t", "g", func(context.Context, Delivery) error {
				close(began)
				time.Sleep(10 * time.Second)
				leftFirst = contains(s.seen(), "leave worker")
				return nil
			}, ConsumerOptions{Member: &MemberOptions{Name: "worker"}}).Run(ctx)
		}()
		<-began
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if !leftFirst || !slices.Equal(s.filed(), []string{"ack slow"}) {
			t.Errorf("left first: %v; settled %q", leftFirst, s.filed())
		}
		if seen := s.seen(); seen[0] != "join worker" || seen[1] != "receive worker" {
			t.Errorf("%q", seen)
		}
	})
}

// A consumer whose membership ran out joins again and goes on; it does not end as for other refusals.
func TestConsumerJoinsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemberServer(0)
		c := over(t, &wire{answer: s.answer}, Options{})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error, 1)
		go func() {
			done <- c.Consumer("t", "g", func(context.Context, Delivery) error {
				stop()
				return nil
			}, ConsumerOptions{Member: &MemberOptions{Name: "worker"}}).Run(ctx)
		}()
		synctest.Wait()
		s.set(func() { s.gone = true })
		s.groupServer.mu.Lock()
		s.waiting = []string{"later"}
		s.groupServer.mu.Unlock()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.filed(), []string{"ack later"}) {
			t.Errorf("settled %q", s.filed())
		}
	})
}

func TestConsumerThatIsIdleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &groupServer{waiting: []string{"a", "b"}}
		c := over(t, &wire{answer: g.answer}, Options{})
		began := time.Now()
		err := c.Consumer("t", "g", func(context.Context, Delivery) error {
			time.Sleep(5 * time.Second) // while one works it is not idle
			return nil
		}, ConsumerOptions{Concurrency: 2, Idle: time.Second}).Run(t.Context())
		if took := time.Since(began); err != nil || took < 6*time.Second || took > 8*time.Second || len(g.filed()) != 2 {
			t.Errorf("after %s: %v, settled %q", took, err, g.filed())
		}
	})
}
