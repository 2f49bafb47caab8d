package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"
)

// badgerLogHeader is the length of the head of Badger's logs (vlogHeaderSize in its value.go).
const badgerLogHeader = 20

// plainHeads makes what Badger keeps of encryption what it is without one: it names no key in the head of any log, and its registry of keys
// is empty. A flipped bit there would cost all that the directory holds, and says nothing of it.
func plainHeads(dir string) error {
	registry := filepath.Join(dir, badger.KeyRegistryFileName)
	b, err := os.ReadFile(registry)
	if err == nil && (len(b) != keyRegistrySize || string(b[len(b)-len(keyRegistryText):]) != keyRegistryText) {
		err = os.Remove(registry) // Badger makes it anew, or does without
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: %w", err)
	}
	for _, pattern := range []string{"*.mem", "*.vlog"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		for _, name := range names {
			if err := plainHead(name); err != nil {
				return fmt.Errorf("store: %w", err)
			}
		}
	}
	return nil
}

// keyRegistryText is what Badger's registry of keys consists of when it has none, behind 16 random bytes (key_registry.go).
const keyRegistryText = "Hello Badger"

const keyRegistrySize = 16 + len(keyRegistryText)

// plainHead clears the number of a key in the head of a log.
func plainHead(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var number [8]byte
	if n, err := f.ReadAt(number[:], 0); n < len(number) {
		return endIsNoError(err) // cut within its head: nothing is in it
	}
	if number == [8]byte{} {
		return nil
	}
	if _, err := f.WriteAt(make([]byte, len(number)), 0); err != nil {
		return err
	}
	return f.Sync()
}

// endLogs ends the logs that Badger reads through when it opens a directory for writing (the memtables' WALs and
// the last value log) at the first entry whose header makes no sense, behind what bridgeWAL and bridgeValueLog can keep.
// Badger cuts a log at an entry with a wrong CRC or a short body by itself; a length that is no varint makes its Open fail
// and leak its goroutines, and one of 4 GiB makes it panic: then everything in the volume would count as damaged, for
// one broken entry.
// Source: safeRead.Entry and header.DecodeFrom of Badger 4.9.
//
// torn says that a WAL ends in something that is not a whole transaction.
func endLogs(dir string) (torn bool, err error) {
	if err := removeEmptyLogs(dir); err != nil {
		return false, err
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	values, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	for _, name := range names {
		err := endLog(name, func(f *os.File) (end int64, err error) {
			end, cut, err := bridgeWAL(f)
			torn = torn || cut
			return end, err
		})
		if err != nil {
			return false, fmt.Errorf("store: %w", err)
		}
	}
	if len(values) > 0 { // the names are numbers of six digits
		if err := endLog(slices.Max(values), bridgeValueLog); err != nil {
			return false, fmt.Errorf("store: %w", err)
		}
	}
	return torn, nil
}

// removeEmptyLogs removes the logs that have not a byte. A process that was killed while Badger made or removed one leaves it
// so (MmapFile.Delete of ristretto truncates first), and Badger's Open then fails with what says that the file is new. A WAL that
// is removed is in a table already.
func removeEmptyLogs(dir string) error {
	for _, pattern := range []string{"*.mem", "*.vlog"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err == nil && info.Size() == 0 {
				err = os.Remove(name)
			}
			if err != nil {
				return fmt.Errorf("store: %w", err)
			}
		}
	}
	return nil
}

// endLog has a log bridged and then writes zeros over the header that makes no sense, if there is one: Badger takes that for
// the log's end. bridge says up to where all entries are intact.
func endLog(name string, bridge func(*os.File) (int64, error)) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	from, err := bridge(f)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	at, why, err := endOfEntries(f, from, info.Size())
	if err != nil || why != endSenseless {
		return err
	}
	if _, err := f.WriteAt(make([]byte, min(64, info.Size()-at)), at); err != nil {
		return err
	}
	return f.Sync()
}

// logEnd is why there is no further entry in a log, as Badger reads it.
type logEnd int

const (
	endOrdinary  logEnd = iota // the file's end, zeros, a wrong CRC or a short body: Badger ends the log there
	endSenseless               // a header that Badger can't read
)

// endOfEntries walks a log as Badger does, from the beginning of an entry on: up to where the entries are intact, and what
// is there instead of the next one.
func endOfEntries(f *os.File, from, size int64) (at int64, why logEnd, err error) {
	r := bufio.NewReaderSize(io.NewSectionReader(f, from, max(0, size-from)), 1<<16)
	for at = from; at < size; {
		// Two bytes of flags and three varints of up to ten bytes.
		head, err := r.Peek(int(min(32, size-at)))
		if err != nil {
			return at, endOrdinary, err
		}
		length, body, ok := entryLength(head)
		if !ok || body > size-at {
			// Too short for the file is an end to Badger, but only after it made room for up to 4 GiB.
			return at, endSenseless, nil
		}
		if body == 0 && head[0] == 0 && head[1] == 0 {
			return at, endOrdinary, nil
		}
		sum := crc32.New(castagnoli)
		if _, err := io.CopyN(sum, r, int64(length)+body); err != nil {
			return at, endOrdinary, endIsNoError(err)
		}
		var crc [crc32.Size]byte
		if _, err := io.ReadFull(r, crc[:]); err != nil || binary.BigEndian.Uint32(crc[:]) != sum.Sum32() {
			return at, endOrdinary, endIsNoError(err)
		}
		at += int64(length) + body + crc32.Size
	}
	return at, endOrdinary, nil
}

func endIsNoError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// entryLength reads the header of an entry: its own length and that of key and value. ok is false for one that
// Badger never writes.
func entryLength(head []byte) (length int, body int64, ok bool) {
	length = 2
	if len(head) < length {
		return 0, 0, true // a file that ends inside a header
	}
	var fields [3]uint64
	for i := range fields {
		v, n := binary.Uvarint(head[length:])
		if n < 0 || n == 0 && len(head) == 32 {
			return 0, 0, false
		}
		if n == 0 {
			return length, 0, true
		}
		fields[i], length = v, length+n
	}
	if fields[0] > 1<<16 || fields[1] > 1<<32-1-1<<16 {
		return 0, 0, false
	}
	return length, int64(fields[0] + fields[1]), true
}
