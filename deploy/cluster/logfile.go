package cluster

import (
	"os"
	"sync"
)

// maxLog is how large a log file becomes before it is put aside as <name>.1, in place of an older one; so
// logs take at most about twice that.
const maxLog = 16 << 20

// LogFile is a log that does not grow for ever. Writing is safe from any goroutine.
type LogFile struct {
	name string

	mu   sync.Mutex
	file *os.File
	size int64
}

// OpenLog opens a log file for appending, or makes it.
func OpenLog(name string) (*LogFile, error) {
	l := &LogFile{name: name}
	return l, l.open()
}

// open is called with mu held, or by the only user.
func (l *LogFile) open() error {
	file, err := openForChild(l.name)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write appends; it puts the file aside first when it has become too large.
func (l *LogFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > maxLog {
		l.file.Close()
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// Close closes the file; nothing may be written after it.
func (l *LogFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// openForChild opens a log that a child writes by itself, so that it also takes what the runtime says of a
// panic; it is put aside at starts only.
func openForChild(name string) (*os.File, error) {
	if info, err := os.Stat(name); err == nil && info.Size() > maxLog {
		if err := os.Rename(name, name+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}
