//go:build !linux

package gateway

import "syscall"

// limitUnacknowledged does nothing where the system has no such limit: its own, some minutes, holds.
func limitUnacknowledged(string, string, syscall.RawConn) error { return nil }
