package cursor

import (
	"bytes"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mqerr"
)

var key = bytes.Repeat([]byte{7}, 32)

func secrets(n uint32) []byte {
	if n == 3 {
		return key
	}
	return nil
}

func TestOpenTakesWhatSealMade(t *testing.T) {
	for _, payload := range []string{"", "x", strings.Repeat("\x00\xff", 5000)} {
		text := Seal(Read, "orders", []byte(payload), 3, key)
		got, err := Open(Read, "orders", text, secrets)
		if err != nil || string(got) != payload {
			t.Errorf("%d bytes: %d, %v", len(payload), len(got), err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	text := Seal(Read, "orders", []byte("payload"), 3, key)
	flipped := text[:12] + string(text[12]^1) + text[13:]
	for name, c := range map[string]struct {
		kind        Kind
		scope, text string
	}{
		"empty":         {Read, "orders", ""},
		"no alphabet":   {Read, "orders", "!!!"},
		"short":         {Read, "orders", text[:10]},
		"cut":           {Read, "orders", text[:len(text)-1]},
		"longer":        {Read, "orders", text + "AAAA"},
		"flipped":       {Read, "orders", flipped},
		"other kind":    {Held, "orders", text},
		"other scope":   {Read, "order", text},
		"unknown key":   {Read, "orders", Seal(Read, "orders", []byte("payload"), 4, key)},
		"other secret":  {Read, "orders", Seal(Read, "orders", []byte("payload"), 3, []byte("x"))},
		"beyond bounds": {Read, "orders", strings.Repeat("A", maxText+1)},
	} {
		if _, err := Open(c.kind, c.scope, c.text, secrets); !mqerr.Is(err, mqerr.InvalidCursor) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(Seal(Read, "orders", []byte("payload"), 3, key))
	f.Add("")
	f.Add("AQQD")
	f.Fuzz(func(t *testing.T, text string) {
		if payload, err := Open(Read, "orders", text, secrets); err == nil && Seal(Read, "orders", payload, 3, key) != text {
			t.Errorf("%q opened to %q, which has another text", text, payload)
		}
	})
}
