//go:build !linux

package cluster

import "syscall"

// childAttributes put a child into a process group of its own, so that Ctrl-C reaches only the parent. It ends
// with the parent by seeing the end of its stdin.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
