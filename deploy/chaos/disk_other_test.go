//go:build !linux

package chaos

import "errors"

// mountDisk can't be done here.
func mountDisk(string, int) error { return errors.ErrUnsupported }

func unmountDisk(string) error { return nil }

func diskUsage(string) (used, total int64, err error) { return 0, 0, errors.ErrUnsupported }
