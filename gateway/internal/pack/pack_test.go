package pack

import (
	"bytes"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

func newPacker(t testing.TB) *Packer {
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func build(values ...[]byte) *mq.BatchBuilder {
	var b mq.BatchBuilder
	for _, v := range values {
		b.Add(&mq.Message{Value: v, Lane: mq.LaneNormal})
	}
	return &b
}

func TestBodiesComeBack(t *testing.T) {
	p := newPacker(t)
	values := [][]byte{bytes.Repeat([]byte("abc"), 1000), nil, {0, 255, 10}}
	for compression, codec := range map[string]mq.Codec{"none": mq.CodecNone, "s2": mq.CodecS2, "zstd": mq.CodecZstd} {
		raw := p.Append(nil, build(values...), "p", "g", compression)
		b, err := mq.ParseBatch(raw)
		if err != nil {
			t.Fatal(compression, err)
		}
		if b.Codec != codec {
			t.Errorf("%s: codec %d, want %d", compression, b.Codec, codec)
		}
		body, err := p.Body(&b, nil)
		if err != nil {
			t.Fatal(compression, err)
		}
		if want := bytes.Join(values, nil); !bytes.Equal(body, want) {
			t.Errorf("%s: %d bytes came back, want %d", compression, len(body), len(want))
		}
	}
}

func TestWhatPackingMakesLargerStaysRaw(t *testing.T) {
	p := newPacker(t)
	noise := make([]byte, 1024)
	x := uint32(1)
	for i := range noise {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		noise[i] = byte(x)
	}
	for _, compression := range []string{"s2", "zstd"} {
		b, err := mq.ParseBatch(p.Append(nil, build(noise), "", "g", compression))
		if err != nil || b.Codec != mq.CodecNone {
			t.Errorf("%s: codec %d, %v; want raw", compression, b.Codec, err)
		}
	}
}

// FuzzBody: a packed body that lies about its length or is damaged is an error, never a panic.
func FuzzBody(f *testing.F) {
	p := newPacker(f)
	for _, c := range []string{"none", "s2", "zstd"} {
		f.Add(p.Append(nil, build(bytes.Repeat([]byte("x"), 4000)), "p", "g", c))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := mq.ParseBatch(raw)
		if err != nil {
			return
		}
		if body, err := p.Body(&b, nil); err == nil && len(body) != b.RawSize {
			t.Fatalf("%d bytes of %d without an error", len(body), b.RawSize)
		}
	})
}
