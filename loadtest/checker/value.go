package checker

import (
	"bytes"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// MinSize is the length of the shortest value: its prefix.
const MinSize = prefixLength

// A value is text that needs no escapes in JSON: "sd1" run "." id "." hash "." filler, numbers as 8 hex
// digits. The hash covers everything else.
const (
	magic        = "sd1"
	runAt        = len(magic)
	idAt         = runAt + 8 + 1
	hashAt       = idAt + 8 + 1
	fillerAt     = hashAt + 8 + 1
	prefixLength = fillerAt
)

func appendValue(dst []byte, run, id uint32, size int) ([]byte, uint32) {
	start := len(dst)
	dst = append(dst, magic...)
	dst = append(appendHex(dst, run), '.')
	dst = append(appendHex(dst, id), '.')
	dst = append(dst, "00000000."...)
	x := uint64(id)*0x9e3779b97f4a7c15 + uint64(run)
	for len(dst)-start < size {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		dst = append(dst, 'a'+byte(x>>60))
	}
	hash := sum(dst[start:])
	appendHex(dst[:start+hashAt], hash)
	return dst, hash
}

func appendHex(b []byte, v uint32) []byte {
	const digits = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, digits[v>>shift&15])
	}
	return b
}

// sum hashes a value but for the place where its hash is.
func sum(value []byte) uint32 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(value[:min(hashAt, len(value))])
	_, _ = d.Write(value[min(hashAt+8, len(value)):])
	return uint32(d.Sum64())
}

// parseValue finds out which message a value is. ours is false for what this run did not make, whole for
// what was changed on the way.
func parseValue(value []byte, run uint32) (id uint32, ours, whole bool) {
	if len(value) < prefixLength || !bytes.HasPrefix(value, []byte(magic)) {
		return 0, false, false
	}
	gotRun, err := strconv.ParseUint(string(value[runAt:runAt+8]), 16, 32)
	if err != nil || uint32(gotRun) != run {
		return 0, false, false
	}
	number, err := strconv.ParseUint(string(value[idAt:idAt+8]), 16, 32)
	if err != nil {
		return 0, true, false
	}
	hash, err := strconv.ParseUint(string(value[hashAt:hashAt+8]), 16, 32)
	return uint32(number), true, err == nil && uint32(hash) == sum(value)
}

// ID is the id that a value names, 0 if it names none. It does not check whose value it is.
func ID(value []byte) uint32 {
	if len(value) < prefixLength || !bytes.HasPrefix(value, []byte(magic)) {
		return 0
	}
	id, err := strconv.ParseUint(string(value[idAt:idAt+8]), 16, 32)
	if err != nil {
		return 0
	}
	return uint32(id)
}
