package gateway

import (
	"fmt"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// headerTTL is how long a raw publish is good for.
const headerTTL = "Mq-Ttl"

// parseTTL reads how long a message is good for, in nanoseconds.
func parseTTL[T ~string | ~[]byte](text T) (int64, error) {
	d, err := time.ParseDuration(string(text))
	if err != nil || d < mq.MinTTL || d > mq.MaxTTL {
		return 0, fmt.Errorf("must be a duration from %s to %s (30s, 5m), not %.40q", mq.Duration(mq.MinTTL), mq.Duration(mq.MaxTTL), string(text))
	}
	return int64(d), nil
}
