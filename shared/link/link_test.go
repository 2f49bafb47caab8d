package link

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// echo is a node that answers every append with its size, and errors when the batch says so.
type echo struct {
	mqpb.UnimplementedLogNodeServer
}

func (echo) Gateway(t mqpb.LogNode_GatewayServer) error {
	s := NewStream(t)
	return s.Run(func(ft frame.Type, id uint64, body []byte) error {
		var a frame.Append
		if err := a.Parse(body); err != nil {
			return err
		}
		switch string(a.Batch) {
		case "refuse":
			e := frame.ErrorOf(mqerr.New(mqerr.StorageFull, "full"))
			return s.Put(frame.TypeError, id, &e)
		case "silence":
			return nil
		case "break":
			return errors.New("broken")
		}
		return s.Put(frame.TypeAppended, id, &frame.Appended{First: uint64(len(a.Batch))})
	}, func() {})
}

func (echo) Probe(context.Context, *mqpb.ProbeRequest) (*mqpb.ProbeResponse, error) {
	return &mqpb.ProbeResponse{Segments: []*mqpb.SegmentState{{Segment: 5}}}, nil
}

func dial(t *testing.T) mqpb.LogNodeClient {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(ServerOptions()...)
	mqpb.RegisterLogNodeServer(server, echo{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	conn, err := grpc.NewClient(l.Addr().String(), append(DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		<-served
	})
	return mqpb.NewLogNodeClient(conn)
}

// open runs a caller on a stream until the test ends.
func open(t *testing.T, c mqpb.LogNodeClient) *Caller {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	tr, err := c.Gateway(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s := NewStream(tr)
	caller := NewCaller(s)
	done := make(chan struct{})
	go func() {
		defer close(done)
		caller.Fail(errors.Join(ErrClosed, s.Run(caller.Handle, cancel)))
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return caller
}

func TestCallsAreAnsweredInAnyNumber(t *testing.T) {
	caller := open(t, dial(t))
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			size := i * 37 // some far beyond a coalesced message
			if i%100 == 0 {
				size = 3 << 20
			}
			ft, body, sent, err := caller.Call(t.Context(), frame.TypeAppend, &frame.Append{Batch: make([]byte, size)})
			var a frame.Appended
			if err != nil || !sent || ft != frame.TypeAppended || a.Parse(body) != nil || a.First != uint64(size) {
				t.Errorf("call of %d bytes: %v %v %+v", size, ft, err, a)
			}
		})
	}
	wg.Wait()
}

func TestErrorsComeBackWithTheirCode(t *testing.T) {
	caller := open(t, dial(t))
	_, _, sent, err := caller.Call(t.Context(), frame.TypeAppend, &frame.Append{Batch: []byte("refuse")})
	if !mqerr.Is(err, mqerr.StorageFull) || !sent {
		t.Fatal(sent, err)
	}
}

func TestBrokenStreamFailsEveryCall(t *testing.T) {
	caller := open(t, dial(t))
	waiting := make(chan error, 1)
	go func() {
		_, _, _, err := caller.Call(t.Context(), frame.TypeAppend, &frame.Append{Batch: []byte("silence")})
		waiting <- err
	}()
	if _, _, sent, err := caller.Call(t.Context(), frame.TypeAppend, &frame.Append{Batch: []byte("break")}); !errors.Is(err, ErrClosed) || !sent {
		t.Fatalf("the call that broke it: sent %v, %v", sent, err)
	}
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, _, sent, err := caller.Call(t.Context(), frame.TypeAppend, &frame.Append{}); err == nil || sent {
		t.Fatalf("a call after the end: sent %v, %v", sent, err)
	}
}

func TestCancelledCallIsForgotten(t *testing.T) {
	caller := open(t, dial(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, sent, err := caller.Call(ctx, frame.TypeAppend, &frame.Append{Batch: []byte("silence")}); !errors.Is(err, context.Canceled) || !sent {
		t.Fatal(sent, err)
	}
	if _, _, _, err := caller.Call(t.Context(), frame.TypeAppend, &frame.Append{Batch: []byte("x")}); err != nil {
		t.Fatal(err)
	}
}

func TestControlCallsBesideStreams(t *testing.T) {
	c := dial(t)
	res, err := c.Probe(t.Context(), &mqpb.ProbeRequest{})
	if err != nil || len(res.Segments) != 1 || res.Segments[0].Segment != 5 {
		t.Fatal(res, err)
	}
}

// blocked is a transport whose peer never reads.
type blocked struct{ release chan struct{} }

func (b blocked) Send(*mqpb.Raw) error {
	<-b.release
	return ErrClosed
}

func (b blocked) Recv() (*mqpb.Raw, error) {
	<-b.release
	return nil, ErrClosed
}

func TestSlowPeerIsBounded(t *testing.T) {
	b := blocked{make(chan struct{})}
	s := NewStream(b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Run(func(frame.Type, uint64, []byte) error { return nil }, func() {})
	}()
	big := &frame.Append{Batch: []byte(strings.Repeat("x", 1<<20))}
	var err error
	for range 200 {
		if err = s.Put(frame.TypeAppend, 1, big); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrFull) || s.Waiting() > maxWaiting+2<<20 {
		t.Fatalf("%v with %d bytes waiting", err, s.Waiting())
	}
	close(b.release)
	<-done
	if err := s.Put(frame.TypeAppend, 1, big); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestGarbageEndsTheStream(t *testing.T) {
	for _, raw := range []string{"abc", "\x00\x00\x00\x09\x01\x01", "\x00\x00\x00\x01\x01", "\x00\x00\x00\x02\x01\xff"} {
		s := NewStream(&once{raw: raw})
		if err := s.receive(func(frame.Type, uint64, []byte) error { return nil }); err == nil || errors.Is(err, ErrClosed) {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

type once struct{ raw string }

func (o *once) Send(*mqpb.Raw) error { return nil }

func (o *once) Recv() (*mqpb.Raw, error) {
	if o.raw == "" {
		return nil, ErrClosed
	}
	m := &mqpb.Raw{Data: []byte(o.raw)}
	o.raw = ""
	return m, nil
}
