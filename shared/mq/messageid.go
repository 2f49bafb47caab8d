package mq

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
)

// MessageID is a message's address. Its text form is opaque to users: base64url of a flags byte, then
// varints of topic id, partition, and offset or schedule number.
type MessageID struct {
	Partition PartitionID
	// Scheduled says that Number is a schedule number; otherwise it is the message's offset.
	Scheduled bool
	Number    uint64
}

const (
	idVersion   = 0x10 // high bits of the flags byte
	idScheduled = 0x01
)

// ErrMessageID says that a text is no message id.
var ErrMessageID = errors.New("mq: not a message id")

// AppendTo appends the id's text form.
func (m MessageID) AppendTo(b []byte) []byte {
	var raw [1 + 3*binary.MaxVarintLen64]byte
	x := append(raw[:0], idVersion)
	if m.Scheduled {
		x[0] |= idScheduled
	}
	x = AppendPartition(x, m.Partition)
	x = binary.AppendUvarint(x, m.Number)
	return base64.RawURLEncoding.AppendEncode(b, x)
}

// String is the id's text form.
func (m MessageID) String() string { return string(m.AppendTo(nil)) }

// ParseMessageID reads a text form strictly: one text for one id.
func ParseMessageID(s string) (MessageID, error) {
	if len(s) > 64 {
		return MessageID{}, ErrMessageID
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil {
		return MessageID{}, ErrMessageID
	}
	r := Reader{b: raw}
	flags := r.Byte()
	id := MessageID{Partition: r.Partition(), Number: r.Uvarint(), Scheduled: flags&idScheduled != 0}
	if r.err != nil || len(r.b) != 0 || flags&^idScheduled != idVersion || id.String() != s {
		return MessageID{}, ErrMessageID
	}
	return id, nil
}
