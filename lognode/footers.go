package lognode

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/splashdam/splashdam/shared/beat"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// footersEvery is how often a node looks for sealed segments without a whole footer, footersAgain how often it looks at
	// those again that had one: a file may have been lost or found damaged since.
	footersEvery = 10 * time.Second
	footersAgain = 10 * time.Minute
	// footerBytes is how many bytes of entries a second a node reads to derive footers.
	footerBytes = 32 << 20
)

// deriveFooters gives the sealed segments here their footers where they have none yet: a copy that came by repair, one
// whose process ended before its segment was sealed, a file that was lost. One at a time, within a rate. With that, what
// new leaders need of footers comes into memory after a start; of the newest segments last, so that it stays.
func (n *Node) deriveFooters() {
	limit := rate.NewLimiter(footerBytes, 4*footerBytes)
	taken := func(ctx context.Context, bytes int) error { return limit.WaitN(ctx, min(bytes, 4*footerBytes)) }
	tick := beat.NewTicker(footersEvery)
	defer tick.Stop()
	whole := map[mq.SegmentID]bool{} // bounded by the segments that are here
	again := time.Now().Add(footersAgain)
	for {
		if time.Now().After(again) {
			clear(whole)
			again = time.Now().Add(footersAgain)
		}
		var lacking []mq.Segment
		for _, info := range n.store.Ended() {
			if info.Damaged || info.Tail.Before(*info.End) || whole[info.Segment.ID] {
				continue
			}
			s := info.Segment
			s.Sealed, s.End = true, *info.End
			lacking = append(lacking, s)
		}
		slices.SortFunc(lacking, func(a, b mq.Segment) int { return cmp.Compare(a.ID, b.ID) })
		for _, s := range lacking {
			p := n.known(s.Partition)
			if p == nil {
				continue
			}
			done, err := p.DeriveFooter(n.ctx, &s, taken)
			if err != nil && n.ctx.Err() == nil {
				n.log.Warn("a footer could not be derived yet", "segment", s.ID, "err", err)
			}
			if whole[s.ID] = done; n.ctx.Err() != nil {
				return
			}
		}
		select {
		case <-tick.C:
		case <-n.ctx.Done():
			return
		}
	}
}
