//go:build !unix

package gateway

import "net"

// hungUp leaves it to net/http to notice that a peer has gone.
func hungUp(net.Conn) bool { return false }
