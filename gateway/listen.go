package gateway

import (
	"context"
	"net"
	"time"
)

// peerSilence is how long a peer may be silent that owes an answer by TCP's own rules, until its connection ends.
const peerSilence = 30 * time.Second

// listen opens the HTTP address. Connections whose other side has vanished end after about peerSilence, whether they
// rest (keepalive) or are written to, so that their leases come back and their memory is free.
func listen(ctx context.Context, address string) (net.Listener, error) {
	l := net.ListenConfig{Control: limitUnacknowledged,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: peerSilence / 2, Interval: peerSilence / 6, Count: 3}}
	ln, err := l.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return unseen{ln}, nil
}
