package gateway

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// TestMain lets four tests run at the same time where -parallel does not say otherwise, however few processors there are: they wait
// for most of their time, for etcd to start and for what happens by the clock.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
