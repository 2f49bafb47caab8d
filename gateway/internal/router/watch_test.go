package router

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// wire is one end of a stream without a network, and both ends' client and server.
type wire struct {
	mqpb.LogNodeClient
	grpc.ClientStream
	ctx      context.Context // of the node
	stream   context.Context // of the gateway's stream
	out, in  chan *mqpb.Raw
	answers  atomic.Bool // the node answers whether it is there; else it hangs
	asked    atomic.Int64
	told     atomic.Int64
	lookedAt chan time.Time
}

func (w *wire) Gateway(ctx context.Context, _ ...grpc.CallOption) (mqpb.LogNode_GatewayClient, error) {
	w.stream = ctx
	return w, nil
}

func (w *wire) Send(m *mqpb.Raw) error { return pass(w.stream, w.out, m) }

func (w *wire) Recv() (*mqpb.Raw, error) { return take(w.stream, w.in) }

// nodeEnd is the log node's end.
type nodeEnd struct{ w *wire }

func (e nodeEnd) Send(m *mqpb.Raw) error { return pass(e.w.ctx, e.w.in, m) }

func (e nodeEnd) Recv() (*mqpb.Raw, error) { return take(e.w.ctx, e.w.out) }

func pass(ctx context.Context, c chan<- *mqpb.Raw, m *mqpb.Raw) error {
	select {
	case c <- m:
		return nil
	case <-ctx.Done():
		return io.EOF
	}
}

func take(ctx context.Context, c <-chan *mqpb.Raw) (*mqpb.Raw, error) {
	select {
	case m := <-c:
		return m, nil
	case <-ctx.Done():
		return nil, io.EOF
	}
}

// serve is a log node that answers no request, and says that it is there as long as it does not hang.
func (w *wire) serve() {
	s := link.NewStream(nodeEnd{w})
	_ = s.Run(func(t frame.Type, _ uint64, _ []byte) error {
		if t == frame.TypeStatus {
			w.asked.Add(1)
			if w.answers.Load() {
				return s.Put(frame.TypeStatus, 0, &frame.Status{})
			}
		}
		return nil
	}, func() {})
}

// watched runs f in a bubble with a stream to a node that answers.
func watched(t *testing.T, f func(t *testing.T, w *wire, s *Session, ended <-chan struct{})) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &wire{ctx: ctx, out: make(chan *mqpb.Raw), in: make(chan *mqpb.Raw), lookedAt: make(chan time.Time, 100)}
		w.answers.Store(true)
		log := slog.New(slog.DiscardHandler)
		r := New(Config{Gateway: "gateway-1", Instance: "x", View: meta.NewView(nil, log), Log: log,
			Look: func(string) { w.lookedAt <- time.Now() }, Told: func(string, int64) { w.told.Add(1) }})
		defer r.Close()
		n := &node{r: r, name: "node-1", addr: "node-1:1", client: w}
		ended, served := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(served)
			w.serve()
		}()
		go func() {
			defer close(ended)
			stream, cancelStream := context.WithCancel(ctx)
			defer cancelStream()
			_ = n.stream(stream, func() {})
		}()
		synctest.Wait()
		f(t, w, n.session.Load(), ended)
		cancel()
		<-ended
		<-served
	})
}

// ask makes a call that is never answered.
func ask(ctx context.Context, s *Session) (over <-chan error) {
	done := make(chan error, 1)
	go func() {
		_, _, _, err := s.caller.Call(ctx, frame.TypeRead, &frame.Read{})
		done <- err
	}()
	return done
}

// A gateway with nothing to do asks nobody, however long its nodes have nothing to say.
func TestIdleStreamsAreNotSuspected(t *testing.T) {
	watched(t, func(t *testing.T, w *wire, s *Session, ended <-chan struct{}) {
		<-time.After(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		<-ask(ctx, s) // and one that had something to do does so no longer
		cancel()
		<-time.After(time.Hour)
		if len(w.lookedAt) > 0 || w.asked.Load() > 0 {
			t.Errorf("the controller was asked %d times, the node %d times", len(w.lookedAt), w.asked.Load())
		}
		select {
		case <-ended:
			t.Error("the stream was ended")
		default:
		}
	})
}

// A node that takes long to answer says that it is there.
func TestBusyNodesAreNotSuspected(t *testing.T) {
	watched(t, func(t *testing.T, w *wire, s *Session, ended <-chan struct{}) {
		<-time.After(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		<-ask(ctx, s)
		if len(w.lookedAt) > 0 {
			t.Error("the controller was asked")
		}
		if most := int64(2 * time.Minute / hush); w.asked.Load() < most-2 || w.asked.Load() > most {
			t.Errorf("the node was asked %d times in a minute", w.asked.Load())
		}
		if w.told.Load() > 0 {
			t.Error("a clock that the node does not know was told")
		}
		select {
		case <-ended:
			t.Error("the stream was ended")
		default:
		}
	})
}

// A node that hangs is looked at hush after its last word, and what waits for it ends: under load, where a word came just
// before, and on a stream that was idle, where hush counts from the first question.
func TestNodesThatHangAreSuspected(t *testing.T) {
	for _, idle := range []time.Duration{0, time.Hour} {
		watched(t, func(t *testing.T, w *wire, s *Session, ended <-chan struct{}) {
			<-time.After(idle)
			over := ask(t.Context(), s)
			last := time.Now()
			if idle == 0 {
				<-time.After(hush/2 + time.Millisecond) // it was asked and has answered just now
				synctest.Wait()
				last = last.Add(hush / 2)
			}
			w.answers.Store(false)
			if at := <-w.lookedAt; at.Sub(last) != hush {
				t.Errorf("idle for %v: the controller was asked after %v", idle, at.Sub(last))
			}
			if err := <-over; err == nil {
				t.Error("the call was answered")
			}
			if after := time.Since(last); after < silence || after > silence+hush/3 {
				t.Errorf("idle for %v: the call ended after %v", idle, after)
			}
			<-ended
		})
	}
}
