package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

const orderedGroup = "by-key"

// makeOrdered makes the group that orders by key. Nothing dies in it: a dead letter would let the next of its key go.
func makeOrdered(ctx context.Context, c *client.Client, topic string) error {
	ordering, attempts := "key", 0
	_, err := c.PutGroup(ctx, topic, orderedGroup, api.GroupInput{Ordering: &ordering, MaxAttempts: &attempts})
	return err
}

// given is a delivery of a key's message.
type given struct{ fence, offset uint64 }

// keyed is what was seen of one key.
type keyed struct {
	given []given
	// last is the delivery with the highest fence; settling says that an acknowledgement of its message was sent.
	last     given
	settling bool
}

// order judges a group that orders by key. Fences tell in which order the leader handed out, whatever happened to the
// answers on their way. Its rules: in the order of fences the offsets of a key never go back; a message is
// delivered only when the acknowledgement of the one before it was at least sent; what was acknowledged stays away.
type order struct {
	broke func(format string, args ...any)

	mu        sync.Mutex
	keys      map[string]*keyed
	seen      map[place]uint64 // the fence under which it was acknowledged; 0 while it was only delivered
	delivered int
	again     int
}

func newOrder(broke func(string, ...any)) *order {
	return &order{broke: broke, keys: map[string]*keyed{}, seen: map[place]uint64{}}
}

// file judges a delivery. free says that the message may expire: it then lets the next one go without more.
func (o *order) file(d *client.Delivery, fence uint64, free bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.delivered++
	if d.Attempt > 1 {
		o.again++
	}
	here := place{d.Partition, d.Offset}
	if at := o.seen[here]; at > 0 && fence >= at {
		o.broke("%s: %d/%d was delivered after it had been acknowledged", orderedGroup, d.Partition, d.Offset)
	}
	o.seen[here] = max(o.seen[here], 0)
	if d.Key == nil {
		return
	}
	k := o.keys[string(d.Key)]
	if k == nil {
		k = &keyed{}
		o.keys[string(d.Key)] = k
	}
	now := given{fence, d.Offset}
	if len(k.given) > 0 && fence > k.last.fence && d.Offset != k.last.offset && !k.settling {
		o.broke("%s: %s: %d/%d was delivered while offset %d was out", orderedGroup, d.Key, d.Partition, d.Offset, k.last.offset)
	}
	if len(k.given) == 0 || fence > k.last.fence {
		k.settling = free || k.settling && d.Offset == k.last.offset
		k.last = now
	}
	k.given = append(k.given, now)
}

// settling is called before an acknowledgement is sent: from then on the next message of the key may come.
func (o *order) settling(d *client.Delivery) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if k := o.keys[string(d.Key)]; d.Key != nil && k.last.offset == d.Offset {
		k.settling = true
	}
}

func (o *order) ack(d *client.Delivery, fence uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	at := place{d.Partition, d.Offset}
	o.seen[at] = max(o.seen[at], fence)
}

// finish looks at each key's deliveries in the order in which they were handed out.
func (o *order) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, k := range o.keys {
		slices.SortFunc(k.given, func(a, b given) int { return cmp.Compare(a.fence, b.fence) })
		for i := 1; i < len(k.given); i++ {
			if k.given[i].offset < k.given[i-1].offset {
				o.broke("%s: %s: offset %d was delivered after offset %d", orderedGroup, name, k.given[i].offset, k.given[i-1].offset)
			}
		}
	}
}

// compare finds what the journals hold and the group never got, though it says that all is settled.
func (o *order) compare(places []place) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, at := range places {
		if _, ok := o.seen[at]; !ok {
			o.broke("%s: %d/%d was never delivered", orderedGroup, at.partition, at.offset)
		}
	}
}

func (o *order) String() string {
	return fmt.Sprintf("%d keys, %d deliveries of %d messages, %d of them not the first", len(o.keys), o.delivered, len(o.seen), o.again)
}
