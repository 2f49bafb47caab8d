package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
)

// Badger's Open cuts the last value log at the first entry that is broken: one flipped bit would cost this copy all that was
// written behind it, and where each copy has one there would be nothing left to put together. So what is broken before
// something intact is made an entry of the length that it takes up, with a CRC that is right: Badger passes over it, and
// whoever reads it meets the damage by the CRC that the entry inside has.
//
// A write that was torn is not made to look whole so: a value log is synced before the WAL names what is in it, so nothing
// points to what a crash of the machine tore.

// valueKeySize is the length of each key in a value log: ours and Badger's version.
const valueKeySize = keySize + 8

// leastValueEntry is the shortest entry there can be: flags, three lengths of a byte, the key and the CRC.
const leastValueEntry = 2 + 3 + valueKeySize + crc32.Size

// bridgeValueLog makes a value log one that Badger reads to the last intact entry, and says where that ends.
func bridgeValueLog(f *os.File) (end int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	bridged := false
	for at := int64(badgerLogHeader); ; bridged = true {
		if at, _, err = endOfEntries(f, at, info.Size()); err != nil {
			return at, err
		}
		next, found, err := nextIntact(f, at, info.Size())
		if err != nil || !found {
			if bridged && err == nil {
				err = f.Sync()
			}
			return at, err
		}
		if err := bridge(f, at, next); err != nil {
			return at, err
		}
		at = next
	}
}

// nextIntact looks for an intact entry behind one that is broken. In a log whose end is reached there are zeros only.
func nextIntact(f *os.File, at, size int64) (next int64, found bool, err error) {
	if at >= size {
		return 0, false, nil
	}
	chunk, zeros := make([]byte, 1<<18), make([]byte, 1<<18)
	for from := at; from < size; {
		n := min(int64(len(chunk)), size-from)
		if _, err := f.ReadAt(chunk[:n], from); err != nil && !errors.Is(err, io.EOF) {
			return 0, false, err
		}
		if !bytes.Equal(chunk[:n], zeros[:n]) {
			break
		}
		if from += n; from >= size {
			return 0, false, nil
		}
	}
	rest := make([]byte, size-at) // at most what a value log is long, and only where one is damaged
	n, err := f.ReadAt(rest, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, false, err
	}
	rest = rest[:n]
	for i := leastValueEntry; len(rest)-i >= leastValueEntry; i++ {
		// The length of a key is the third byte of an entry.
		skip := bytes.IndexByte(rest[i+2:], valueKeySize)
		if skip < 0 {
			return 0, false, nil
		}
		if i += skip; intactEntry(rest[i:]) {
			return at + int64(i), true, nil
		}
	}
	return 0, false, nil
}

// intactEntry says whether bytes begin with an entry that the store wrote.
func intactEntry(b []byte) bool {
	if len(b) < leastValueEntry || b[2] != valueKeySize {
		return false
	}
	length, body, ok := entryLength(b[:min(32, len(b))])
	end := int64(length) + body
	if !ok || body < valueKeySize || end+crc32.Size > int64(len(b)) {
		return false
	}
	return binary.BigEndian.Uint32(b[end:]) == crc32.Checksum(b[:end], castagnoli)
}

// bridge makes what lies between two positions one entry: as it was, if only its header or its CRC was broken.
func bridge(f *os.File, at, next int64) error {
	b := make([]byte, next-at)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	end := len(b) - crc32.Size
	head := []byte{b[0] &^ badgerTxn, 0, valueKeySize}
	for n := 1; n <= binary.MaxVarintLen32; n++ {
		value := end - len(head) - n - 1 - valueKeySize
		if length := binary.AppendUvarint(nil, uint64(max(0, value))); value >= 0 && len(length) <= n {
			for len(length) < n { // a number may be written longer than it need be
				length[len(length)-1] |= 0x80
				length = append(length, 0)
			}
			head = append(append(head, length...), 0)
			break
		}
	}
	copy(b, head)
	binary.BigEndian.PutUint32(b[end:], crc32.Checksum(b[:end], castagnoli))
	_, err := f.WriteAt(b, at)
	return err
}
