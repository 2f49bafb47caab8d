package cluster

import "syscall"

// childAttributes put a child into a process group of its own, so that Ctrl-C reaches only the parent, which
// then stops everything in order, and let the kernel end it with the parent.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
