// Package leaks is for tests that want to know which goroutines they have left behind.
package leaks

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines that are about to end may take for it. It only passes where one does not: goleak by itself looks
// for less than half a second, in which a busy machine has not given hundreds of them their turn.
const patience = time.Minute

// Left waits until there are no goroutines but the caller's and those that the options leave out, for a minute at most; its error
// names those that are there still.
func Left(leaveOut ...goleak.Option) error { return leftAfter(patience, leaveOut) }

func leftAfter(patience time.Duration, leaveOut []goleak.Option) error {
	for deadline := time.Now().Add(patience); ; {
		if err := goleak.Find(leaveOut...); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// After is what the process of tests ends with: with status, and where that is 0 and goroutines are left, with 1 and their names
// on the standard error.
func After(status int, leaveOut ...goleak.Option) int {
	if status != 0 {
		return status
	}
	if err := Left(leaveOut...); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines are left of tests that have ended well:", err)
		return 1
	}
	return 0
}
