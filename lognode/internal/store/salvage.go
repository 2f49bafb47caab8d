package store

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"

	"github.com/splashdam/splashdam/shared/mq"
)

// What a broken table had is found again without it: an entry says by itself whose it is and has a CRC. Those of 128 bytes and
// more lie in the value logs, of which a table has the places only; smaller ones lie in the table, and are looked for among its
// bytes. Which ones had been deleted is not known then: what was deleted was broken, or lies beyond an end that the facts know.

// saved is an entry that was found.
type saved struct {
	key     [keySize]byte
	version uint64
	inline  bool
	value   []byte // the entry, or where Badger finds it
}

// badgerPointer says in a table that a value is a place in a value log (bitValuePointer in Badger's value.go).
const badgerPointer = 1 << 1

// salvage finds the intact entries that no whole table has, of those that are to be kept.
func (t *tables) salvage(broken []uint64, keep func(mq.SegmentID, mq.Position) bool) (list []saved, err error) {
	for _, id := range broken {
		name := table.NewFilename(id, t.dir)
		for _, name := range []string{name, name + brokenExt} {
			b, err := os.ReadFile(name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("store: %w", err)
			}
			list = appendInline(list, b, keep)
		}
	}
	named, err := t.places()
	if err != nil {
		return nil, err
	}
	logs, err := filepath.Glob(filepath.Join(t.dir, "*.vlog"))
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	slices.Sort(logs)
	for _, name := range logs {
		number, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(name), ".vlog"), 10, 32)
		if err != nil {
			continue
		}
		err = eachValue(name, func(at int64, b []byte, head int) {
			if _, known := slices.BinarySearch(named, number<<32|uint64(at)); known {
				return
			}
			e, err := mq.ParseEntry(b[head+valueKeySize : len(b)-crc32.Size])
			if err != nil || !keep(e.Segment, e.At) {
				return
			}
			x := saved{key: [keySize]byte(entryKey(e.Segment, e.At)), version: 1, value: appendPlace(nil, uint32(number), uint32(len(b)), uint32(at))}
			if bytes.Equal(b[head:head+keySize], x.key[:]) {
				x.version = y.ParseTs(b[head : head+valueKeySize])
			}
			list = append(list, x)
		})
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
	}
	// Of two with one key the one that was written last counts.
	slices.SortStableFunc(list, func(a, b saved) int { return bytes.Compare(a.key[:], b.key[:]) })
	kept := list[:0]
	for _, x := range list {
		if n := len(kept); n > 0 && kept[n-1].key == x.key {
			kept[n-1] = x
		} else {
			kept = append(kept, x)
		}
	}
	return kept, nil
}

// appendPlace appends what Badger calls a value pointer, which it writes as it lies in memory.
func appendPlace(b []byte, log, length, at uint32) []byte {
	b = binary.NativeEndian.AppendUint32(b, log)
	b = binary.NativeEndian.AppendUint32(b, length)
	return binary.NativeEndian.AppendUint32(b, at)
}

// places are the places in the value logs to which the whole tables point, ascending: the log's number, then the place in it.
func (t *tables) places() (places []uint64, err error) {
	for id := range t.levels {
		if t.broken[id] != nil {
			continue
		}
		err := withTable(table.NewFilename(id, t.dir), func(t *table.Table) error {
			it := t.NewIterator(table.NOCACHE)
			defer it.Close()
			for it.Rewind(); it.Valid(); it.Next() {
				if v := it.Value(); v.Meta&badgerPointer != 0 && len(v.Value) == 12 {
					log, at := binary.NativeEndian.Uint32(v.Value), binary.NativeEndian.Uint32(v.Value[8:])
					places = append(places, uint64(log)<<32|uint64(at))
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(places)
	return places, nil
}

// eachValue gives the intact entries of a value log to f: where each begins, its bytes, and how many of them its header takes.
func eachValue(name string, f func(at int64, b []byte, head int)) error {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	end, err := bridgeValueLog(file)
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(io.NewSectionReader(file, badgerLogHeader, max(0, end-badgerLogHeader)), 1<<16)
	var b []byte
	for at := int64(badgerLogHeader); at < end; at += int64(len(b)) {
		header, err := r.Peek(int(min(32, end-at)))
		if err != nil {
			return err
		}
		head, body, _ := entryLength(header)
		b = slices.Grow(b[:0], head+int(body)+crc32.Size)[:head+int(body)+crc32.Size]
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
		if intactEntry(b) {
			f(at, b, head)
		}
	}
	return nil
}

// appendInline looks for entries that are small enough to lie in a table.
func appendInline(list []saved, b []byte, keep func(mq.SegmentID, mq.Position) bool) []saved {
	for i := 0; i+mq.EntryHeaderSize <= len(b); i++ {
		e, err := mq.ParseEntryHeader(b[i:])
		if err != nil || e.Segment == 0 || !keep(e.Segment, e.At) {
			continue
		}
		// Its length is nowhere in it: it is the one with which the CRC is right.
		n := mq.EntryHeaderSize
		sum := crc32.Checksum(b[i+5:i+n], castagnoli)
		for sum != binary.BigEndian.Uint32(b[i+1:]) && n < valueThreshold-1 && i+n < len(b) {
			sum = crc32.Update(sum, castagnoli, b[i+n:i+n+1])
			n++
		}
		if sum == binary.BigEndian.Uint32(b[i+1:]) {
			list = append(list, saved{key: [keySize]byte(entryKey(e.Segment, e.At)), version: 1, inline: true, value: b[i : i+n]})
			i += n - 1
		}
	}
	return list
}

// buildTable makes a table of entries that are in the order of their keys. As there are no empty ones, it has the deletion of a key
// that is none before them.
func buildTable(list []saved) (b []byte, err error) {
	defer recovered(&err)
	o := tableOptions()
	builder := table.NewTableBuilder(o)
	defer builder.Close()
	builder.Add(y.KeyWithTs(make([]byte, keySize), 1), y.ValueStruct{Meta: badgerDelete}, 0)
	for _, x := range list {
		v := y.ValueStruct{Value: x.value}
		if !x.inline {
			v.Meta = badgerPointer
		}
		builder.Add(y.KeyWithTs(x.key[:], x.version), v, 0)
	}
	return builder.Finish(), nil
}
