package jsonscan

import (
	"strings"
	"testing"
)

func BenchmarkString(b *testing.B) {
	text := []byte(`"` + strings.Repeat("0123456789", 10) + `"`)
	var s Scanner
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		s.Reset(text)
		s.String()
	}
}

func BenchmarkAppendString(b *testing.B) {
	text := []byte(strings.Repeat("0123456789", 10))
	var out []byte
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		out = AppendString(out[:0], text)
	}
}
