//go:build unix

package gateway

import (
	"net"
	"syscall"
)

// hungUp says whether the peer has closed its side of a connection. net/http notices that too, but in a
// goroutine of its own that may not have run yet when an answer is ready.
func hungUp(conn net.Conn) bool {
	tcp, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true // it is closed here already
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err == syscall.ECONNRESET
	})
	return gone || err != nil
}
