package link

import (
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec for everything that is not Raw
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"

	"github.com/splashdam/splashdam/shared/mqpb"
)

// MaxMessage bounds one gRPC message between tiers, in bytes: the largest user message (16 MiB) with its
// index, or a coalesced run of frames.
const MaxMessage = 24 << 20

// A connection on which nothing came for a while is asked for a sign of life, from both ends, and is over without one: a
// network that was cut, or a machine that is gone, says nothing. Ten seconds is the least that gRPC's clients take.
const (
	silence    = 10 * time.Second
	unanswered = 3 * time.Second
)

// codec passes mqpb.Raw through as bytes and leaves every other message to protobuf. It answers to the
// name "proto", so that one server holds control calls and streams.
type codec struct{ proto encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

func (c codec) Name() string { return "proto" }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, ok := v.(*mqpb.Raw); ok {
		return mem.BufferSlice{mem.SliceBuffer(raw.Data)}, nil
	}
	return c.proto.Marshal(v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if raw, ok := v.(*mqpb.Raw); ok {
		raw.Data = data.Materialize()
		return nil
	}
	if c.proto == nil {
		return fmt.Errorf("link: no protobuf codec for %T", v)
	}
	return c.proto.Unmarshal(data, v)
}

// ServerOptions are what a server of the LogNode service needs.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage),
		grpc.InitialWindowSize(8 << 20), grpc.InitialConnWindowSize(32 << 20),
		grpc.WriteBufferSize(64 << 10), grpc.ReadBufferSize(64 << 10),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: silence, Timeout: unanswered}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: silence / 2, PermitWithoutStream: true}),
	}
}

// DialOptions are what a client of the LogNode service needs, besides its credentials.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newCodec()),
			grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
		grpc.WithInitialWindowSize(8 << 20), grpc.WithInitialConnWindowSize(32 << 20),
		grpc.WithWriteBufferSize(64 << 10), grpc.WithReadBufferSize(64 << 10),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: silence, Timeout: unanswered}),
	}
}
