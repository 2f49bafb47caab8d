//go:build !(linux && amd64)

package wallclock

import (
	"errors"
	"time"
)

// Supported says whether this system can do it.
const Supported = false

// Set can't be done here.
func Set(string, time.Duration) error { return errors.ErrUnsupported }

// Follow can't be done here.
func Follow(string) error { return errors.ErrUnsupported }
