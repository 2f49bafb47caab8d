package mq

import (
	"cmp"
	"encoding/binary"
	"fmt"
)

// Position is a place in a partition's journal. Offset is the partition's next message offset when an
// entry was made there; Seq counts the entries made at that same offset, so that entries without
// messages have places of their own. Positions sort as their bytes do, in journal order.
//
// Tail, commit, base and end are all "the position that the next entry would get".
type Position struct {
	Offset uint64 `json:"offset"`
	Seq    uint32 `json:"seq"`
}

// PositionSize is the length of a position in a key: offset (8) and seq (4), big endian.
const PositionSize = 12

// Compare orders positions as the journal does.
func (p Position) Compare(o Position) int {
	if c := cmp.Compare(p.Offset, o.Offset); c != 0 {
		return c
	}
	return cmp.Compare(p.Seq, o.Seq)
}

// Before says whether p comes earlier in the journal than o.
func (p Position) Before(o Position) bool { return p.Compare(o) < 0 }

// Next is the position after an entry at p that took n message offsets.
func (p Position) Next(n uint32) Position {
	if n > 0 {
		return Position{Offset: p.Offset + uint64(n)}
	}
	return Position{Offset: p.Offset, Seq: p.Seq + 1}
}

// AppendKey appends the 12 bytes that sort like the position.
func (p Position) AppendKey(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, p.Offset)
	return binary.BigEndian.AppendUint32(b, p.Seq)
}

// ParsePosition reads what AppendKey wrote; b must hold at least PositionSize bytes.
func ParsePosition(b []byte) Position {
	return Position{Offset: binary.BigEndian.Uint64(b), Seq: binary.BigEndian.Uint32(b[8:])}
}

// String is for logs: "120.3".
func (p Position) String() string { return fmt.Sprintf("%d.%d", p.Offset, p.Seq) }
