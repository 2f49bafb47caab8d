package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// What is broken of one entry in the value log that Badger reads through at its opening costs that entry, not what lies behind it.
func TestABrokenValueCostsNothingBehindIt(t *testing.T) {
	t.Parallel()
	const header = 2 + 1 + 2 + 1 + 28 // before a value of 128 bytes or more: flags, lengths, the key
	for name, spoil := range map[string]func(entry []byte){
		"a bit of the value":   func(b []byte) { b[len(b)-40] ^= 4 },
		"a bit of the key":     func(b []byte) { b[20] ^= 1 },
		"a bit of the length":  func(b []byte) { b[3] ^= 1 },
		"a key without length": func(b []byte) { b[2] = 0 },
		"flags":                func(b []byte) { b[0] ^= 0xFF },
		"a header of ones":     func(b []byte) { copy(b, bytes.Repeat([]byte{0xFF}, 32)) },
		"zeros":                func(b []byte) { clear(b) },
		"its CRC":              func(b []byte) { b[len(b)-1] ^= 1 },
	} {
		crash := len(name)%2 == 0 // one half of them so, the other half otherwise
		h := prepare(t, crash, 400)
		j := h.journals[0]
		value := filepath.Join(h.cfg.Dir, "volumes", "000001", "000001.vlog")
		b, err := os.ReadFile(value)
		if err != nil {
			t.Fatal(err)
		}
		big := 7
		for len(j.data[big]) < 2*valueThreshold {
			big++
		}
		at := bytes.LastIndex(b, j.data[big])
		spoil(b[at-header : at+len(j.data[big])+4])
		if err := os.WriteFile(value, b, 0o644); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s := mustOpen(t, h.cfg)
			h.journals[1].mustHold(t, s, 400)
			h.journals[2].mustHold(t, s, 400)
			n := 0
			for n < 400 {
				before := n
				err := s.Scan(1, j.entries[n].At, func(at mq.Position, data []byte) bool {
					if at != j.entries[n].At || !bytes.Equal(data, j.data[n]) {
						t.Fatalf("%s: something else at %s", name, at)
					}
					n++
					return true
				})
				if n == big && errors.Is(err, ErrDamaged) || n == big && n == before {
					n++ // the one that is broken
				} else if n < 400 && n != big {
					t.Fatalf("%s, crash %v: reading stops at entry %d of 400, %d is broken: %v", name, crash, n, big, err)
				}
			}
			mustClose(t, s)
		}
	}
}
