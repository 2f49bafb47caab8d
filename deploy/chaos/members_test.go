package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// memberTTL is short, so that the partitions of members that die go on soon.
const memberTTL = 3 * time.Second

// member is a consumer of the group with members: it joins under a name, receives, and leaves or dies after some
// seconds, until ctx ends. A receive is a sign of life, so nothing beats beside it.
func (tr *traffic) member(ctx context.Context, number int) {
	random := rand.New(rand.NewPCG(tr.seed, uint64(2000+number)))
	seen := 0
	for life := 0; ctx.Err() == nil; life++ {
		name := fmt.Sprintf("member-%d-%d", number, life)
		c := tr.one[(number+life)%len(tr.one)]
		if _, err := c.JoinGroup(ctx, tr.topic, assignedGroup, api.JoinInput{Name: name, TTL: api.Duration(memberTTL)}); err != nil {
			tr.note("join", err)
			pause(ctx, 100*time.Millisecond)
			continue
		}
		tr.live(ctx, c, number, name, time.Duration(2+random.IntN(12))*time.Second, &seen)
		if random.IntN(2) == 0 {
			if err := c.LeaveGroup(ctx, tr.topic, assignedGroup, name); err != nil {
				tr.note("leave", err)
			}
		}
	}
}

// live receives as a member for a while, or until it is none any more.
func (tr *traffic) live(ctx context.Context, c *client.Client, number int, name string, long time.Duration, seen *int) {
	for began := time.Now(); time.Since(began) < long && ctx.Err() == nil; {
		got, err := c.Receive(ctx, tr.topic, assignedGroup,
			api.ReceiveRequest{Max: 100, Wait: api.Duration(time.Second), Lease: api.Duration(lease), Member: name})
		switch {
		case ctx.Err() != nil:
			return
		case client.IsNotMember(err):
			return
		case err != nil:
			tr.note("receive as member", err)
			pause(ctx, 100*time.Millisecond)
		default:
			tr.work(ctx, number, tr.byOrder(tr.assigned), got, seen)
		}
	}
}
