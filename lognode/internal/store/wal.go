package store

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"os"
	"strconv"
)

// Badger's Open cuts a WAL, too, at the first entry that is broken, and the keys behind it are gone though their values are there.
// What is broken before something of a later transaction is damage, not a torn write: each transaction is synced before the next one is
// written. So it is made entries that Badger takes and that name no key: what was there is missed by its segment's
// chain and mark, and by nothing else. What is broken of the last transaction may be torn, and is left to Badger to cut.
//
// Source: logFile.iterate and Txn.commitAndSend of Badger 4.9. A transaction is its entries, with its version in their keys, and
// one that says its end.

// endKey begins the key of the entry that ends a transaction.
const endKey = "!badger!txn"

// The flags of entries in a WAL (Badger's value.go).
const (
	badgerDelete = 1 << 0
	badgerInTxn  = 1 << 6
	badgerEndTxn = 1 << 7
	// badgerTxn are those that an entry of a value log never has.
	badgerTxn = badgerInTxn | badgerEndTxn
)

// walEntry is an intact entry of a WAL.
type walEntry struct {
	size    int
	version uint64 // of its transaction
	ends    bool   // it is the transaction's end
}

// parseWAL reads the entry that bytes begin with.
func parseWAL(b []byte) (e walEntry, ok bool) {
	length, body, ok := entryLength(b[:min(32, len(b))])
	end := int64(length) + body
	if !ok || body == 0 || end+crc32.Size > int64(len(b)) || binary.BigEndian.Uint32(b[end:]) != crc32.Checksum(b[:end], castagnoli) {
		return e, false
	}
	keyLength, _ := binary.Uvarint(b[2:])
	if keyLength < 8 || int64(keyLength) > body {
		return e, false
	}
	key, value := b[length:length+int(keyLength)], b[length+int(keyLength):end]
	e.size, e.version = int(end)+crc32.Size, math.MaxUint64-binary.BigEndian.Uint64(key[len(key)-8:])
	switch b[0] & badgerTxn {
	case badgerInTxn:
		return e, true
	case badgerEndTxn:
		said, err := strconv.ParseUint(string(value), 10, 64)
		e.ends = true
		return e, err == nil && said == e.version
	}
	return e, false
}

// bridgeWAL makes a WAL one that Badger reads to the last transaction that is whole. It says up to where all entries are intact, and
// whether there is something behind that transaction.
func bridgeWAL(f *os.File) (end int64, torn bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	b := make([]byte, info.Size()) // twice a memtable at most
	if _, err := io.ReadFull(f, b); err != nil {
		return 0, false, err
	}
	written := len(bytes.TrimRight(b, "\x00"))
	var open uint64 // the version of the transaction that has begun and not ended, or 0
	bridged := false
	at := badgerLogHeader
	for at < written {
		e, ok := parseWAL(b[at:])
		if ok && (open == e.version || open == 0 && !e.ends) {
			at, open = at+e.size, e.version
			if e.ends {
				open = 0
			}
			continue
		}
		next, after := nextWAL(b, at, written)
		last := open // the transaction that may be torn here
		if open == 0 {
			last = after.version
		}
		if next == 0 || !laterWAL(b, next, written, last) || !fillWAL(b[at:next], open, after) {
			break
		}
		at, open, bridged = next, after.version, true
	}
	torn = open != 0 || at < written
	if !bridged {
		return int64(at), torn, nil
	}
	if _, err := f.WriteAt(b[:written], 0); err != nil {
		return 0, torn, err
	}
	return int64(at), torn, f.Sync()
}

// nextWAL is the place of the next intact entry behind a broken one; 0 is none.
func nextWAL(b []byte, at, written int) (next int, e walEntry) {
	for next = at + 1; next < written; next++ {
		if b[next]&badgerTxn == 0 || next+2 >= len(b) || b[next+2] != valueKeySize && b[next+2] != byte(len(endKey)+8) {
			continue
		}
		if e, ok := parseWAL(b[next:]); ok {
			return next, e
		}
	}
	return 0, e
}

// laterWAL says whether anything of a later transaction than version was written.
func laterWAL(b []byte, at, written int, version uint64) bool {
	for at != 0 && at < written {
		e, ok := parseWAL(b[at:])
		switch {
		case !ok:
			at, _ = nextWAL(b, at, written)
			continue
		case e.version > version:
			return true
		}
		at += e.size
	}
	return false
}

// fillWAL makes a broken range entries that end the open transaction, if what comes after it is of another, and begin that
// of what comes after. False if the range has no room for them.
func fillWAL(b []byte, open uint64, after walEntry) bool {
	var list []byte
	if open != 0 && open != after.version {
		list = appendWAL(nil, badgerEndTxn, endKey, open, []byte(strconv.FormatUint(open, 10)), 1)
	}
	left := len(b) - len(list)
	if left == 0 && !after.ends {
		copy(b, list)
		return true
	}
	for n := 1; n <= binary.MaxVarintLen32; n++ { // a length may be written longer than it need be
		value := left - 2 - 1 - n - 1 - valueKeySize - crc32.Size
		if value >= 0 && len(binary.AppendUvarint(nil, uint64(value))) <= n {
			list = appendWAL(list, badgerInTxn|badgerDelete, string(make([]byte, keySize)), after.version, make([]byte, value), n)
			copy(b, list)
			return true
		}
	}
	return false
}

// appendWAL appends an entry in which the value's length takes n bytes.
func appendWAL(b []byte, flags byte, key string, version uint64, value []byte, n int) []byte {
	from := len(b)
	b = append(b, flags, 0, byte(len(key)+8))
	length := binary.AppendUvarint(nil, uint64(len(value)))
	for len(length) < n {
		length[len(length)-1] |= 0x80
		length = append(length, 0)
	}
	b = append(append(append(b, length...), 0), key...)
	b = append(binary.BigEndian.AppendUint64(b, math.MaxUint64-version), value...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}
