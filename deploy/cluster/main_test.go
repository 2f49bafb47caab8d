package cluster

import (
	"fmt"
	"os"
	"testing"

	"github.com/splashdam/splashdam/deploy/wallclock"
	"github.com/splashdam/splashdam/shared/s3test"
	"github.com/splashdam/splashdam/shared/sidebyside"
)

// TestMain lets the test binary be its own child, so that tests of processes need no other program. Tests have clusters, ports
// and directories of their own and run side by side; only what measures the whole process does not.
func TestMain(m *testing.M) {
	err := wallclock.FollowChild(os.Args[1:])
	child := false
	if err == nil {
		child, err = RunChild(os.Args[1:])
	}
	if err == nil && !child {
		err = prepare()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if !child {
		os.Exit(m.Run())
	}
}

// prepare sets what holds for the whole process, before it reads its command line.
func prepare() error {
	for name, value := range s3test.Environment() { // nodes look for their credentials there
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return sidebyside.Set()
}
