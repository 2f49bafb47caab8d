package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// Groups beside the one that takes everything as it comes.
const (
	orderedGroup  = "by-key"    // orders by key
	assignedGroup = "by-member" // orders by key, for members that come and go
	deadGroup     = "rejecting" // rejects at random; its dead letters are redriven
)

// makeGroups makes them. Nothing dies in the first two: a dead letter would let the next of its key go.
func makeGroups(ctx context.Context, c *client.Client, topic string) error {
	ordering, assigned, attempts := "key", "assigned", 0
	for name, in := range map[string]api.GroupInput{
		orderedGroup:  {Ordering: &ordering, MaxAttempts: &attempts},
		assignedGroup: {Ordering: &ordering, MaxAttempts: &attempts, Mode: &assigned},
		deadGroup:     {MaxAttempts: &attempts},
	} {
		if _, err := c.PutGroup(ctx, topic, name, in); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
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
	coverage
	keys map[string]*keyed
}

func newOrder(group string, broke func(string, ...any)) *order {
	return &order{coverage: coverage{group: group, broke: broke, seen: map[place]uint64{}}, keys: map[string]*keyed{}}
}

// file judges a delivery. free says that the message may expire: it then lets the next one go without more.
func (o *order) file(d *client.Delivery, fence uint64, free bool) {
	o.coverage.file(d, fence)
	o.mu.Lock()
	defer o.mu.Unlock()
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
		o.broke("%s: %s: %d/%d was delivered while offset %d was out", o.group, d.Key, d.Partition, d.Offset, k.last.offset)
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
	if k := o.keys[string(d.Key)]; k != nil && k.last.offset == d.Offset {
		k.settling = true
	}
}

// finish looks at each key's deliveries in the order in which they were handed out.
func (o *order) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, k := range o.keys {
		slices.SortFunc(k.given, func(a, b given) int { return cmp.Compare(a.fence, b.fence) })
		for i := 1; i < len(k.given); i++ {
			if k.given[i].offset < k.given[i-1].offset {
				o.broke("%s: %s: offset %d was delivered after offset %d", o.group, name, k.given[i].offset, k.given[i-1].offset)
			}
		}
	}
}

// finish judges what groups that order by key got.
func (tr *traffic) finish() {
	tr.order.finish()
	tr.assigned.finish()
	if s := tr.streams; s != nil {
		s.events.finish()
		s.socket.finish()
		s.worker.finish()
		for _, h := range s.endpoint.hooks {
			h.order.finish() // one without an order has no keys
		}
	}
}

func (o *order) String() string {
	return fmt.Sprintf("%d keys, %s", len(o.keys), &o.coverage)
}
