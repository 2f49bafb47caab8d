package bus

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/splashdam/splashdam/shared/mq"
)

// Pair says that a partition has something ready for a group; frame.TailGroup (0) is for readers without one.
type Pair struct {
	Partition uint32
	Group     mq.GroupID
}

// maxPairs bounds the pairs of one message; what is more goes into another one.
const maxPairs = 4096

const wakeVersion = 1

// appendWake appends the binary form: a version byte, then (partition, group id) as varints up to the end.
func appendWake(b []byte, pairs []Pair) []byte {
	b = append(b, wakeVersion)
	for _, p := range pairs {
		b = binary.AppendUvarint(b, uint64(p.Partition))
		b = binary.AppendUvarint(b, uint64(p.Group))
	}
	return b
}

// parseWake reads what appendWake wrote.
func parseWake(b []byte) ([]Pair, error) {
	if len(b) == 0 || b[0] != wakeVersion {
		return nil, fmt.Errorf("bus: not a wake-up of version %d", wakeVersion)
	}
	r := mq.NewReader(b[1:])
	// A pair has two bytes at least, so this is bounded by what was really sent.
	pairs := make([]Pair, 0, min(len(b)/2, maxPairs))
	for r.Len() > 0 {
		partition, group := r.Uvarint(), r.Uvarint()
		if r.Err() != nil {
			return nil, r.Err()
		}
		if partition > math.MaxUint32 || len(pairs) == maxPairs {
			return nil, fmt.Errorf("bus: a wake-up with partition %d, or more than %d pairs", partition, maxPairs)
		}
		pairs = append(pairs, Pair{uint32(partition), mq.GroupID(group)})
	}
	return pairs, nil
}
