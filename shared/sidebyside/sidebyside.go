// Package sidebyside is for the TestMain of packages whose tests wait for most of their time: for leases to end, for a disk, for work
// that is looked for once a second. Go's own default, one test at a time for each processor, would leave the processors idle.
package sidebyside

import (
	"flag"
	"runtime"
	"strconv"
)

// each is how many tests run at the same time for each processor.
const each = 2

// Set lets two tests for each processor run at the same time, where -parallel does not say otherwise: it must come before the
// flags are parsed. It fails outside a test's process, which has no such flag.
func Set() error { return flag.Set("test.parallel", strconv.Itoa(each*runtime.GOMAXPROCS(0))) }
