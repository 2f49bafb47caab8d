package cluster

import (
	"fmt"
	"os"
	"testing"
)

// TestMain lets the test binary be its own child, so that tests of processes need no other program.
func TestMain(m *testing.M) {
	child, err := RunChild(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	if !child {
		os.Exit(m.Run())
	}
}
