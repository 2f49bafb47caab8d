package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// A framelog is a small append-only file of frames, each with a marker, a length and a CRC, so that a
// reader can tell a torn last frame (cut) from damage in the middle (reported, what follows is still read).
// Its users (facts, ledger, volume lists) write it anew from time to time: it is read into memory whole.
//
// Frame: marker (4) | length of the body (4) | CRC-32C of length and body (4) | body. Big endian.
type framelog struct {
	path string

	mu      sync.Mutex // guards f's end, written, length and err
	f       *os.File
	written int64 // all bytes ever written; does not shrink with a rewrite
	length  int64 // of the file

	syncMu sync.Mutex // one fsync at a time; who waits for it often finds its bytes synced by the one before
	synced int64
	err    error // the first failed write or sync; never tried again
}

const (
	frameHeader = 12
	// maxFrame bounds a body: a writer never makes a larger one, a reader takes a larger one for damage.
	maxFrame = 16 << 20
)

var (
	frameMarker = []byte{0xF5, 'S', 'D', 0x17}
	castagnoli  = crc32.MakeTable(crc32.Castagnoli)
)

// appendFrame appends body as a frame.
func appendFrame(b, body []byte) []byte {
	start := len(b)
	b = append(b, frameMarker...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	b = append(b, 0, 0, 0, 0)
	b = append(b, body...)
	binary.BigEndian.PutUint32(b[start+8:], frameCRC(b[start+4:start+8], body))
	return b
}

func frameCRC(length, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, body)
}

// parseFrame reads the frame at the front of b; ok is false when there is no intact one.
func parseFrame(b []byte) (body []byte, size int, ok bool) {
	if len(b) < frameHeader || !bytes.Equal(b[:4], frameMarker) {
		return nil, 0, false
	}
	n := int(binary.BigEndian.Uint32(b[4:]))
	if n > maxFrame || n > len(b)-frameHeader {
		return nil, 0, false
	}
	body = b[frameHeader : frameHeader+n]
	if frameCRC(b[4:8], body) != binary.BigEndian.Uint32(b[8:]) {
		return nil, 0, false
	}
	return body, frameHeader + n, true
}

// readFrames calls f for every intact frame. end is where the last one ends: what is behind it was torn.
// holes is how many damaged places lie before an intact frame.
func readFrames(b []byte, f func(body []byte) error) (end int64, holes int, err error) {
	for off := 0; off < len(b); {
		body, size, ok := parseFrame(b[off:])
		if !ok {
			next := nextFrame(b, off+1)
			if next < 0 {
				break
			}
			holes++
			off = next
			continue
		}
		if err := f(body); err != nil {
			return end, holes, err
		}
		off += size
		end = int64(off)
	}
	return end, holes, nil
}

// nextFrame finds the next intact frame at or after off, or -1.
func nextFrame(b []byte, off int) int {
	for off < len(b) {
		i := bytes.Index(b[off:], frameMarker)
		if i < 0 {
			return -1
		}
		if _, _, ok := parseFrame(b[off+i:]); ok {
			return off + i
		}
		off += i + 1
	}
	return -1
}

// openFramelog opens or makes the file, gives every intact frame to f, cuts a torn end and syncs.
func openFramelog(path string, f func(body []byte) error) (l *framelog, holes int, torn int64, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("store: %w", err)
	}
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	b, err := io.ReadAll(file)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("store: reading %s: %w", path, err)
	}
	end, holes, err := readFrames(b, f)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("store: %s: %w", path, err)
	}
	torn = int64(len(b)) - end
	if torn > 0 {
		if err = file.Truncate(end); err != nil {
			return nil, 0, 0, fmt.Errorf("store: cutting %s: %w", path, err)
		}
	}
	if _, err = file.Seek(end, io.SeekStart); err != nil {
		return nil, 0, 0, fmt.Errorf("store: %s: %w", path, err)
	}
	// What a killed process wrote may be in the page cache only; from here on it is taken as durable.
	if err = errors.Join(file.Sync(), syncDir(filepath.Dir(path))); err != nil {
		return nil, 0, 0, fmt.Errorf("store: syncing %s: %w", path, err)
	}
	return &framelog{path: path, f: file, written: end, length: end, synced: end}, holes, torn, nil
}

// write appends frames (made by appendFrame) without syncing; the answer is for sync.
func (l *framelog) write(frames []byte) (end int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	if _, err := l.f.Write(frames); err != nil {
		l.err = fmt.Errorf("store: writing %s: %w", l.path, err)
		return 0, l.err
	}
	l.written += int64(len(frames))
	l.length += int64(len(frames))
	return l.written, nil
}

// sync returns once everything up to end is on disk. Callers at the same time share a sync.
func (l *framelog) sync(end int64) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	err, written, f := l.err, l.written, l.f
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if l.synced >= end {
		return nil
	}
	if err := f.Sync(); err != nil {
		l.mu.Lock()
		l.err = fmt.Errorf("store: syncing %s: %w", l.path, err)
		defer l.mu.Unlock()
		return l.err
	}
	l.synced = written
	return nil
}

// size is how long the file is.
func (l *framelog) size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length
}

// rewrite replaces the file by the frames that content returns, atomically. Writers wait meanwhile.
// Ends handed out before stay valid for sync: the new file is synced whole.
func (l *framelog) rewrite(content func() []byte) error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	frames := content()
	if err := writeFileSynced(l.path, frames); err != nil {
		return err // the old file is still whole and in use
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		l.err = fmt.Errorf("store: %w", err)
		return l.err
	}
	old := l.f
	// Ends grow without regard to the file's length, so that an end from before compares as synced.
	l.f, l.length, l.synced = f, int64(len(frames)), l.written
	return old.Close()
}

func (l *framelog) close() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = ErrClosed
	}
	return l.f.Close()
}

// writeFileSynced makes path hold b, whole or not at all.
func writeFileSynced(path string, b []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("store: writing %s: %w", tmp, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("store: syncing %s: %w", dir, err)
	}
	return nil
}
