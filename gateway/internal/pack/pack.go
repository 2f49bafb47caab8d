// Package pack compresses the body of a batch on its way to the leader and unpacks it on its way to a
// consumer. Leaders forward bodies as bytes; only gateways pay for this.
package pack

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/splashdam/splashdam/shared/mq"
)

// smallest is the body below which packing saves less than it costs, in bytes.
const smallest = 256

// Packer holds the encoders and decoders of a gateway; it may be used by many goroutines at once.
type Packer struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
	buf sync.Pool // *[]byte
}

// New makes a packer. Close it to free the codecs.
func New() (*Packer, error) {
	// One of each serves all callers: EncodeAll and DecodeAll may be called at once. Concurrency bounds how
	// many work at a time, so that packing never holds more than a few windows.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(4), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(4), zstd.WithDecoderMaxMemory(mq.MaxBatchBytes), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return &Packer{enc: enc, dec: dec, buf: sync.Pool{New: func() any { return new([]byte) }}}, nil
}

// Close frees the codecs.
func (p *Packer) Close() {
	_ = p.enc.Close() // of an encoder without a writer there is nothing to flush
	p.dec.Close()
}

// Append appends the builder's batch, packed as the topic wants ("none", "s2" or "zstd") if that makes it
// smaller. One with idempotency keys stays as it is: its leader takes repeats out.
func (p *Packer) Append(dst []byte, b *mq.BatchBuilder, producer, gateway, compression string) []byte {
	body := b.Body()
	if compression == "none" || compression == "" || len(body) < smallest || b.Uses()&mq.UsesIdempotency != 0 {
		return b.AppendTo(dst, producer, gateway, mq.CodecNone, nil)
	}
	buf := p.buf.Get().(*[]byte)
	defer p.buf.Put(buf)
	codec := mq.CodecS2
	if compression == "zstd" {
		codec = mq.CodecZstd
		*buf = p.enc.EncodeAll(body, (*buf)[:0])
	} else {
		*buf = s2.Encode((*buf)[:cap(*buf)], body)
	}
	if len(*buf) >= len(body) {
		return b.AppendTo(dst, producer, gateway, mq.CodecNone, nil)
	}
	return b.AppendTo(dst, producer, gateway, codec, *buf)
}

// Body is the unpacked body block of a batch, in buf's memory where it fits. The length is checked against
// what the batch says before anything is allocated.
func (p *Packer) Body(b *mq.Batch, buf []byte) ([]byte, error) {
	packed := b.Packed()
	switch b.Codec {
	case mq.CodecNone:
		return packed, nil
	case mq.CodecS2:
		if n, err := s2.DecodedLen(packed); err != nil || n != b.RawSize {
			return nil, fmt.Errorf("pack: an s2 body of %d bytes says %d (%v)", b.RawSize, n, err)
		}
		out, err := s2.Decode(buf[:cap(buf)], packed)
		if err != nil {
			return nil, fmt.Errorf("pack: s2 body: %w", err)
		}
		return out, nil
	case mq.CodecZstd:
		if cap(buf) < b.RawSize {
			buf = make([]byte, 0, b.RawSize)
		}
		out, err := p.dec.DecodeAll(packed, buf[:0])
		if err != nil || len(out) != b.RawSize {
			return nil, fmt.Errorf("pack: a zstd body of %d bytes has %d (%v)", b.RawSize, len(out), err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("pack: codec %d is not known", b.Codec)
}
