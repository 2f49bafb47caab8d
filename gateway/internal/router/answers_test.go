package router

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// idle is a log node that opens streams and says nothing.
type idle struct {
	mqpb.UnimplementedLogNodeServer
}

func (idle) Gateway(s mqpb.LogNode_GatewayServer) error {
	<-s.Context().Done()
	return s.Context().Err()
}

// The first question after a node waits for its stream: a node is not called silent because nobody has needed it yet.
func TestAnswersWaitsForTheFirstStream(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(link.ServerOptions()...)
	mqpb.RegisterLogNodeServer(server, idle{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	log := slog.New(slog.DiscardHandler)
	r := New(Config{Gateway: "gateway-1", Instance: "x", View: meta.NewView(nil, log), Look: func(string) {}, Log: log})
	defer r.Close()
	if !r.Answers(t.Context(), "node-1", ln.Addr().String()) {
		t.Error("a node that is there does not answer")
	}
	s := r.nodes[ln.Addr().String()].session.Load()
	s.heard.Add(-int64(6 * time.Second)) // its clock comes every five seconds
	if !r.Answers(t.Context(), "node-1", ln.Addr().String()) {
		t.Error("an idle node does not answer")
	}
	s.heard.Add(-int64(2 * time.Second))
	if r.Answers(t.Context(), "node-1", ln.Addr().String()) {
		t.Error("a node that hangs answers")
	}
	server.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if r.Answers(t.Context(), "node-2", ln.Addr().String()+"0") {
		t.Error("nothing is there, and answers")
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if r.Answers(over, "node-3", "127.0.0.1:1") {
		t.Error("nobody waited, and it answers")
	}
}
