package link

import (
	"context"
	"net"

	"google.golang.org/grpc"
)

// Dial opens a connection to host:port. The components' configurations have one for tests that cut the network between
// two of them; nil, as everywhere else, is plain TCP. It must return soon after ctx has ended.
type Dial func(ctx context.Context, addr string) (net.Conn, error)

// Options make a gRPC client use it.
func (d Dial) Options() []grpc.DialOption {
	if d == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithContextDialer(d)}
}

// Open opens a connection without gRPC.
func (d Dial) Open(ctx context.Context, addr string) (net.Conn, error) {
	if d == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}
	return d(ctx, addr)
}
