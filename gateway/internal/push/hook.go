package push

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// Hook is a webhook as the engine needs it. It is not changed after it was given to the engine.
type Hook struct {
	TopicID  mq.TopicID
	Topic    string
	Name     string
	GroupID  mq.GroupID
	Group    string
	Revision int64 // of the webhook's key
	Settings mq.WebhookSettings
	Secrets  []Secret // the newest first
	Paused   bool
	// Private says that the gateway, too, allows private addresses.
	Private bool
	// Partitions are those that this gateway serves, of Total.
	Partitions []uint32
	Total      uint32
}

// Secret is a key that signs until a time; a zero time is no end.
type Secret struct {
	Key   []byte
	Until time.Time
}

// keys are those that sign at a time.
func (h *Hook) keys(now time.Time) [][]byte {
	out := make([][]byte, 0, len(h.Secrets))
	for _, s := range h.Secrets {
		if s.Until.IsZero() || now.Before(s.Until) {
			out = append(out, s.Key)
		}
	}
	return out
}

// share is the part of the webhook's limits that belongs to this gateway.
func (h *Hook) share() float64 { return float64(len(h.Partitions)) / float64(max(h.Total, 1)) }

// slots is how many attempts may be under way here.
func (h *Hook) slots() int {
	return max(1, int(math.Ceil(float64(h.Settings.MaxInFlight)*h.share()-1e-9)))
}

// rate is how many attempts may begin here each second; 0 for any number.
func (h *Hook) rate() float64 { return h.Settings.Rate * h.share() }

// idle says that there is nothing to do here.
func (h *Hook) idle() bool { return h.Paused || len(h.Partitions) == 0 }

// sameSource says whether what is being fetched for h is right for other, too.
func (h *Hook) sameSource(other *Hook) bool {
	return h.idle() == other.idle() && slices.Equal(h.Partitions, other.Partitions) &&
		h.Settings.MaxInFlight == other.Settings.MaxInFlight && h.Settings.Rate == other.Settings.Rate
}

// sameEndpoint says whether h's connections are right for other, too.
func (h *Hook) sameEndpoint(other *Hook) bool {
	a, b := &h.Settings, &other.Settings
	return a.URL == b.URL && a.Timeout == b.Timeout && a.MaxInFlight == b.MaxInFlight && a.AllowPrivate == b.AllowPrivate && h.Private == other.Private
}

// Delivery is a message that is leased to this gateway.
type Delivery struct {
	ID      mq.MessageID // the one it was published under, which a schedule's has no offset in
	Offset  uint64
	Message mq.Message
	Stamp   int64 // when it was published, Unix nanoseconds
	Attempt uint32
	Receipt []byte // in its binary form
	Fence   string // grows with each delivery of a key's messages
	// Source is for Config.Return: where the message came from.
	Source any
}

// Settlement says what is to be done with a delivery.
type Settlement struct {
	Partition mq.PartitionID
	Item      frame.SettleItem
}

// Source is where the engine's messages come from and go to. Its functions are called by many goroutines at once.
type Source struct {
	// Fetch leases up to most messages of the hook's partitions, of about bytes bytes in all; it waits for the first one,
	// as long as the source likes, and may return none. When ctx ends it returns soon, and nothing stays leased
	// that it did not return.
	Fetch func(ctx context.Context, h *Hook, most, bytes int) ([]Delivery, error)
	// Return gives deliveries back that were not sent; the attempt does not count.
	Return func(h *Hook, d []Delivery)
	// Settle settles deliveries of one hook. What can't be settled in time is not said: its lease runs out.
	Settle func(ctx context.Context, h *Hook, s []Settlement)
	// Disable says that the endpoint is gone for good. It tries until it is done or ctx ends.
	Disable func(ctx context.Context, h *Hook, reason string)
}
