package mq

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
)

// Receipt names one delivery. (Segment number, counter) only grows for a message, so it is also given to
// users as a fence.
type Receipt struct {
	Key        uint32 // number of the secret that signs it
	Partition  PartitionID
	Offset     uint64
	Group      GroupID
	Generation uint64 // the group's seek generation
	Segment    uint64 // number of the open segment when it was leased
	Counter    uint64 // lease counter, unique within (partition, segment number)
}

const (
	receiptVersion = 1
	macSize        = 16
)

// ErrReceipt says that a text is no receipt of this cluster.
var ErrReceipt = errors.New("mq: not a receipt of this cluster")

// AppendRaw appends the binary form with its MAC, made with secret.
func (r *Receipt) AppendRaw(b []byte, secret []byte) []byte {
	start := len(b)
	b = r.appendUnsigned(b)
	mac := hmac.New(sha256.New, secret)
	mac.Write(b[start:])
	var sum [sha256.Size]byte
	return append(b, mac.Sum(sum[:0])[:macSize]...)
}

func (r *Receipt) appendUnsigned(b []byte) []byte {
	b = append(b, receiptVersion)
	b = binary.AppendUvarint(b, uint64(r.Key))
	b = AppendPartition(b, r.Partition)
	for _, v := range [...]uint64{r.Offset, uint64(r.Group), r.Generation, r.Segment, r.Counter} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// AppendText appends the base64url form of AppendRaw.
func (r *Receipt) AppendText(b []byte, secret []byte) []byte {
	var raw [128]byte
	return base64.RawURLEncoding.AppendEncode(b, r.AppendRaw(raw[:0], secret))
}

// DecodeReceiptText turns the text form into the binary one; nothing is checked but the alphabet.
func DecodeReceiptText(s string) ([]byte, error) {
	if len(s) > 256 {
		return nil, ErrReceipt
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, ErrReceipt
	}
	return raw, nil
}

// ParseReceipt reads the binary form without checking the MAC: enough to route it to its leader.
func ParseReceipt(raw []byte) (Receipt, error) {
	if len(raw) <= macSize || raw[0] != receiptVersion {
		return Receipt{}, ErrReceipt
	}
	r := Reader{b: raw[1 : len(raw)-macSize]}
	out := Receipt{Key: r.Uint32(), Partition: r.Partition(), Offset: r.Uvarint(), Group: GroupID(r.Uvarint()),
		Generation: r.Uvarint(), Segment: r.Uvarint(), Counter: r.Uvarint()}
	if r.err != nil || len(r.b) != 0 {
		return Receipt{}, ErrReceipt
	}
	return out, nil
}

// VerifyReceipt parses the binary form and checks its MAC; secret gives the key of a number, or nil.
func VerifyReceipt(raw []byte, secret func(number uint32) []byte) (Receipt, error) {
	return NewReceiptVerifier(secret).Verify(raw)
}
