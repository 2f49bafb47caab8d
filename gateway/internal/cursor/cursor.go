// Package cursor makes the opaque texts by which a listing or a read goes on where it stopped. A cursor is
// signed, so that nobody builds one, and bound to the call and resource that gave it out; it holds no
// state of the server, so any gateway takes it at any later time.
package cursor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Kind says which call gave a cursor out. Numbers are part of the text and never change.
type Kind byte

// The kinds.
const (
	Topics Kind = iota + 1
	Groups
	Held
	Read
	Scheduled
)

const (
	version = 1
	macSize = 16
	// maxText bounds what is decoded: a read of 1024 partitions has about 12 KiB.
	maxText = 32 << 10
)

// Seal makes a cursor of a payload. scope names the resource and what else must stay the same from page to
// page; secret is the cluster's key of that number.
func Seal(kind Kind, scope string, payload []byte, number uint32, secret []byte) string {
	b := append(make([]byte, 0, len(payload)+macSize+8), version, byte(kind))
	b = binary.AppendUvarint(b, uint64(number))
	b = append(b, payload...)
	return base64.RawURLEncoding.EncodeToString(append(b, mac(b, scope, secret)...))
}

// Open checks a cursor and answers its payload, or invalid_cursor. secret gives the key of a number, or nil.
func Open(kind Kind, scope, text string, secret func(number uint32) []byte) ([]byte, error) {
	bad := mqerr.New(mqerr.InvalidCursor, "the cursor is not one that this call gave out for these parameters")
	if len(text) > maxText {
		return nil, bad
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < 2+macSize || raw[0] != version || Kind(raw[1]) != kind {
		return nil, bad
	}
	signed, sum := raw[:len(raw)-macSize], raw[len(raw)-macSize:]
	r := mq.NewReader(signed[2:])
	key := secret(r.Uint32())
	if r.Err() != nil || key == nil || !hmac.Equal(sum, mac(signed, scope, key)) {
		return nil, bad
	}
	return r.Rest(), nil
}

// mac covers a word of its own first, so that no receipt signed with the same secret is ever a cursor.
func mac(signed []byte, scope string, secret []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("cursor\x00"))
	h.Write(mq.AppendBytes(nil, scope))
	h.Write(signed)
	return h.Sum(nil)[:macSize]
}
