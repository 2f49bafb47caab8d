package mq

import "fmt"

// Lane is a message's priority within its partition; 0 is the most urgent.
type Lane uint8

// The five lanes.
const (
	LaneCritical Lane = iota
	LaneHigh
	LaneNormal
	LaneLow
	LaneBackground
	Lanes = 5 // how many there are
)

var laneNames = [Lanes]string{"critical", "high", "normal", "low", "background"}

// String is the lane's name in the API.
func (l Lane) String() string {
	if int(l) < len(laneNames) {
		return laneNames[l]
	}
	return fmt.Sprintf("lane(%d)", uint8(l))
}

// Header is one header of a message; names keep the case in which they came.
type Header struct {
	Name  string
	Value string
}

// Message is what a user sends. Value may be empty and may hold any bytes. HasKey tells an empty key
// from none.
type Message struct {
	Key         []byte
	HasKey      bool
	ContentType string
	Headers     []Header
	Value       []byte
	Lane        Lane
	TTL         int64 // nanoseconds from publishing, 0 for none
	// Idempotency is a 128-bit hash of the idempotency key, zero for none.
	Idempotency [16]byte
	// Content is a sum over all else that the sender chose, to tell a retry from another message under the same
	// idempotency key. Only kept where there is one.
	Content uint64
}

// Size is how many bytes of it its sender chose: value, key, content type and headers, which may be most of it.
func (m *Message) Size() int {
	n := len(m.Value) + len(m.Key) + len(m.ContentType)
	for _, h := range m.Headers {
		n += len(h.Name) + len(h.Value)
	}
	return n
}

// The bounds of the public API, in bytes unless said otherwise.
const (
	DefaultMaxMessageBytes = 1 << 20
	LargestMaxMessageBytes = 16 << 20
	MaxBatchMessages       = 10_000
	MaxBatchBytes          = 32 << 20
	MaxHeaders             = 64
	MaxHeaderBytes         = 8 << 10 // name and value of one header
	MaxKeyBytes            = 8 << 10
	MaxContentTypeBytes    = 255
	MaxIdempotencyBytes    = 255 // of an idempotency key
	// IdempotencyKeys and IdempotencyWindow bound what a partition remembers of idempotency keys: the last so many, for
	// so long (nanoseconds), whichever is less.
	IdempotencyKeys   = 1_000_000
	IdempotencyWindow = 10 * 60 * int64(1e9)
	MaxConsumerBytes  = 255
	MaxReasonBytes    = 1 << 10
	// BatchCutBytes is where the gateway begins another batch: a batch is at most this long, or one message.
	BatchCutBytes = 1 << 20
)
