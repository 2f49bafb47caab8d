package wallclock

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Supported says whether this system can do it.
const Supported = true

// system is the kernel's function, and ahead how many nanoseconds are added to what it says: for gettime, which is called where
// Go can't run.
var (
	system uintptr
	ahead  *int64
)

// install puts gettime where the runtime looks, if the kernel has such a function at all.
func install()

// Set says by how much the clock is ahead (negative: behind) of every process that follows the file, at once. It makes the file.
func Set(file string, by time.Duration) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	page, err := mapped(f, syscall.PROT_READ|syscall.PROT_WRITE)
	if err != nil {
		return err
	}
	atomic.StoreInt64(word(page), int64(by))
	return syscall.Munmap(page)
}

// Follow makes the clock of this process the one that Set sets, from now on and for good. It is for the begin of a main.
func Follow(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	page, err := mapped(f, syscall.PROT_READ)
	if err != nil {
		return err
	}
	ahead = word(page)
	if install(); system == 0 {
		return errors.New("the kernel gives no function that tells the time")
	}
	return nil
}

// mapped is the page that all processes share.
func mapped(f *os.File, may int) ([]byte, error) {
	if err := f.Truncate(int64(os.Getpagesize())); err != nil {
		return nil, err
	}
	page, err := syscall.Mmap(int(f.Fd()), 0, os.Getpagesize(), may, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return page, nil
}

func word(page []byte) *int64 { return (*int64)(unsafe.Pointer(&page[0])) }
