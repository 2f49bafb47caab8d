package gateway

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged makes the kernel end connections whose peer does not answer for peerSilence although bytes are on
// their way to it: a host that vanished says nothing, and what a stream writes to it goes into a buffer.
func limitUnacknowledged(_, _ string, c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(peerSilence.Milliseconds()))
	}); e != nil {
		return e
	}
	return err
}
