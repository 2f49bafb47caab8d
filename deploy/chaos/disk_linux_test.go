package chaos

import (
	"fmt"
	"syscall"
)

// mountDisk makes dir a small disk in memory, which must be allowed (root).
func mountDisk(dir string, bytes int) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", bytes))
}

func unmountDisk(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// diskUsage is how much of the disk that holds a file is used, and how large it is, in bytes.
func diskUsage(name string) (used, total int64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(name, &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}
