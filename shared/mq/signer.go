package mq

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"hash"
)

// ReceiptSigner makes the text form of many receipts with one secret, for less than Receipt.AppendText costs
// each. For one goroutine at a time.
type ReceiptSigner struct {
	number uint32
	mac    hash.Hash
	raw    []byte
}

// NewReceiptSigner makes a signer with the secret of that number.
func NewReceiptSigner(number uint32, secret []byte) *ReceiptSigner {
	return &ReceiptSigner{number: number, mac: hmac.New(sha256.New, secret)}
}

// AppendText appends the text form of r, whose Key becomes the signer's.
func (s *ReceiptSigner) AppendText(b []byte, r *Receipt) []byte {
	s.raw = s.AppendRaw(s.raw[:0], r)
	return base64.RawURLEncoding.AppendEncode(b, s.raw)
}

// AppendRaw appends the binary form of r, whose Key becomes the signer's.
func (s *ReceiptSigner) AppendRaw(b []byte, r *Receipt) []byte {
	r.Key = s.number
	start := len(b)
	b = r.appendUnsigned(b)
	s.mac.Reset()
	s.mac.Write(b[start:])
	n := len(b)
	return s.mac.Sum(b)[:n+macSize]
}

// ReceiptVerifier checks many receipts for less than VerifyReceipt costs each. For one goroutine at a time.
type ReceiptVerifier struct {
	secret func(number uint32) []byte
	number uint32
	mac    hash.Hash // of the secret with that number; nil before the first
	sum    []byte
}

// NewReceiptVerifier makes a verifier; secret gives the key of a number, or nil. A number's key never changes.
func NewReceiptVerifier(secret func(number uint32) []byte) *ReceiptVerifier {
	return &ReceiptVerifier{secret: secret}
}

// Verify is VerifyReceipt.
func (v *ReceiptVerifier) Verify(raw []byte) (Receipt, error) {
	r, err := ParseReceipt(raw)
	if err != nil {
		return r, err
	}
	if v.mac == nil || v.number != r.Key {
		key := v.secret(r.Key)
		if key == nil {
			return r, fmt.Errorf("%w: key %d", ErrReceipt, r.Key)
		}
		v.number, v.mac = r.Key, hmac.New(sha256.New, key)
	}
	v.mac.Reset()
	v.mac.Write(raw[:len(raw)-macSize])
	v.sum = v.mac.Sum(v.sum[:0])
	if !hmac.Equal(v.sum[:macSize], raw[len(raw)-macSize:]) {
		return r, ErrReceipt
	}
	return r, nil
}
