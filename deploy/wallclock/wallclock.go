// Package wallclock gives a process a wrong clock, for tests of real processes: an hour ahead, back again, or drifting.
//
// A Go program asks the kernel's page (the vDSO) for the time, through a pointer that its runtime keeps. Follow puts a function
// there that asks the same and adds what a shared file says, so that the whole process is off, libraries too, and nothing in the
// product knows of it. What counts on without being set (CLOCK_MONOTONIC, and so timers, deadlines and time.Since) stays as
// it is, as when an operator or NTP sets a machine's clock.
//
// It does not reach what others stamp for the process: times of files, which are the kernel's. Nothing that is released
// imports this package (package archtest).
package wallclock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Of is the file for the clock of a member of a cluster of processes in dir.
func Of(dir, member string) string { return filepath.Join(dir, member+suffix) }

const suffix = ".clock"

// FollowChild has a child of package cluster follow its clock, if there is a file for it. args are the program's, without its
// name: a child is given the file of its configuration.
func FollowChild(args []string) error {
	for _, arg := range args {
		name, config := strings.CutSuffix(arg, ".json")
		if !config {
			continue
		}
		if err := Follow(name + suffix); !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
