package store

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// What is broken of one entry in a WAL costs what that entry names, not what was written behind it; where it is the end of a
// transaction, nothing.
func TestABrokenWALEntryCostsNothingBehindIt(t *testing.T) {
	t.Parallel()
	const big = 207
	for name, spoil := range map[string]func(b []byte, key int){ // from a key on, behind a header of five bytes or six
		"a bit of the key":       func(b []byte, key int) { b[key+15] ^= 1 },
		"a bit of the version":   func(b []byte, key int) { b[key+26] ^= 1 },
		"a bit of the pointer":   func(b []byte, key int) { b[key+30] ^= 1 },
		"the length of the key":  func(b []byte, key int) { b[key-3] = 0xFF },
		"zeros":                  func(b []byte, key int) { clear(b[key-3 : key+38]) },
		"the end":                func(b []byte, key int) { b[key+bytes.Index(b[key:], []byte(endKey))+3] ^= 1 },
		"the end's header":       func(b []byte, key int) { b[key+bytes.Index(b[key:], []byte(endKey))-3] = 0xFF },
		"the end and all before": func(b []byte, key int) { clear(b[key : key+bytes.Index(b[key:], []byte(endKey))+50]) },
	} {
		h := prepare(t, true, 400)
		j := h.journals[0]
		wal := files(t, h.cfg, "*.mem")[0]
		b, err := os.ReadFile(wal)
		if err != nil {
			t.Fatal(err)
		}
		key := bytes.LastIndex(b, entryKey(1, j.entries[big].At))
		if key < 0 {
			t.Fatal("the key is not in the WAL")
		}
		spoil(b, key)
		if err := os.WriteFile(wal, b, 0o644); err != nil {
			t.Fatal(err)
		}
		most := 1
		if name == "the end and all before" {
			most = 110 // a hundred are one transaction
		}
		for range 2 {
			s := mustOpen(t, h.cfg)
			h.journals[1].mustHold(t, s, 400)
			h.journals[2].mustHold(t, s, 400)
			missing := 0
			for n := 0; n < 400; {
				before := n
				err := s.Scan(1, j.entries[n].At, func(at mq.Position, data []byte) bool {
					if at != j.entries[n].At || !bytes.Equal(data, j.data[n]) {
						t.Fatalf("%s: something else at %s", name, at)
					}
					n++
					return true
				})
				if n == before || err != nil {
					if info, _ := s.Segment(1); !info.Damaged || err != nil && !errors.Is(err, ErrDamaged) {
						t.Fatalf("%s: reading stops at entry %d: %v, %+v", name, n, err, info)
					}
					if n < 200 { // within a transaction Badger writes in any order
						t.Fatalf("%s: entry %d is missing", name, n)
					}
					missing, n = missing+1, n+1
				}
			}
			if missing > most || missing == 0 && !strings.HasPrefix(name, "the end") {
				t.Errorf("%s: %d entries are missing", name, missing)
			}
			mustClose(t, s)
		}
	}
}
