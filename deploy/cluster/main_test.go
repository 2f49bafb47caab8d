package cluster

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/splashdam/splashdam/shared/s3test"
)

// sideBySide is how many tests run at the same time for each processor, where -parallel does not say otherwise. Go's own default is
// one; but these tests wait for most of their time, for leases to end and for work that is looked for once a second.
const sideBySide = 2

// TestMain lets the test binary be its own child, so that tests of processes need no other program. Tests have clusters, ports
// and directories of their own and run side by side; only what measures the whole process does not.
func TestMain(m *testing.M) {
	child, err := RunChild(os.Args[1:])
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
	return flag.Set("test.parallel", strconv.Itoa(sideBySide*runtime.GOMAXPROCS(0)))
}
