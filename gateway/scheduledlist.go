package gateway

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"github.com/splashdam/splashdam/gateway/internal/cursor"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// askedAtOnce bounds the leaders that one listing asks at a time.
const askedAtOnce = 16

// scheduledPlace is where a listing of pending schedules stands: behind this one, by due time, partition and number.
type scheduledPlace struct {
	due       int64
	partition uint32
	number    uint64
}

func (a scheduledPlace) compare(b scheduledPlace) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.partition, b.partition), cmp.Compare(a.number, b.number))
}

// of is what a partition lists behind.
func (a scheduledPlace) of(partition uint32) (due int64, number uint64) {
	switch {
	case partition == a.partition:
		return a.due, a.number
	case partition < a.partition:
		return a.due, math.MaxUint64
	}
	return a.due - 1, math.MaxUint64
}

// handleListScheduled lists the pending schedules of a topic, the first one due first.
func (g *Gateway) handleListScheduled(c echo.Context) error {
	name, err := pathName(c, "topic")
	if err != nil {
		return err
	}
	limit, err := queryLimit(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
	defer cancel()
	t, err := g.knownTopic(ctx, name)
	if err != nil {
		return err
	}
	only, err := queryInt(c, "partition", -1, 0, math.MaxUint32)
	if err != nil {
		return err
	}
	numbers, err := listed(t, only)
	if err != nil {
		return err
	}
	scope := strconv.FormatUint(uint64(t.ID), 10) + "/scheduled/" + strconv.FormatInt(only, 10)
	after, err := g.scheduledFrom(c, scope)
	if err != nil {
		return err
	}
	list, err := g.pendingSchedules(ctx, t, numbers, after, limit)
	if err != nil {
		return err
	}
	out := api.ScheduledList{Scheduled: make([]api.Scheduled, len(list))}
	for i, p := range list {
		id := mq.MessageID{Partition: mq.PartitionID{Topic: t.ID, Number: p.partition}, Scheduled: true, Number: p.number}
		out.Scheduled[i] = api.Scheduled{ID: id.String(), Partition: p.partition, State: api.StateScheduled, DeliverAt: time.Unix(0, p.due).UTC()}
	}
	if len(list) == limit {
		last := list[limit-1]
		payload := binary.AppendUvarint(binary.AppendUvarint(binary.AppendVarint(nil, last.due), uint64(last.partition)), last.number)
		if out.NextCursor, err = g.sealCursor(cursor.Scheduled, scope, payload); err != nil {
			return err
		}
	}
	return answerJSON(c, http.StatusOK, out)
}

// listed are the partitions of a listing: all, or the one that was asked for.
func listed(t meta.Topic, only int64) ([]uint32, error) {
	if only >= int64(t.Settings.Partitions) {
		return nil, mqerr.New(mqerr.PartitionNotFound, "topic %q has the partitions 0 to %d, not %d", t.Name, t.Settings.Partitions-1, only)
	}
	if only >= 0 {
		return []uint32{uint32(only)}, nil
	}
	numbers := make([]uint32, t.Settings.Partitions)
	for i := range numbers {
		numbers[i] = uint32(i)
	}
	return numbers, nil
}

func (g *Gateway) scheduledFrom(c echo.Context, scope string) (scheduledPlace, error) {
	at := scheduledPlace{due: math.MinInt64 / 2}
	payload, err := g.queryCursor(c, cursor.Scheduled, scope)
	if err != nil || payload == nil {
		return at, err
	}
	r := mq.NewReader(payload)
	at = scheduledPlace{due: r.Varint(), partition: r.Uint32(), number: r.Uvarint()}
	if r.Err() != nil || r.Len() != 0 {
		return at, mqerr.New(mqerr.InvalidCursor, "the cursor is of another version")
	}
	return at, nil
}

// pendingSchedules asks all leaders and merges what they answer. A leader that does not answer fails the listing, which
// would not be one in order.
func (g *Gateway) pendingSchedules(ctx context.Context, t meta.Topic, numbers []uint32, after scheduledPlace, limit int) ([]scheduledPlace, error) {
	lists := make([][]scheduledPlace, len(numbers))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(askedAtOnce)
	for i, n := range numbers {
		work.Go(func() error {
			p := mq.PartitionID{Topic: t.ID, Number: n}
			due, number := after.of(n)
			r, err := fromLeader(ctx, g, p, func(ctx context.Context, c mqpb.LogNodeClient) (*mqpb.ListScheduledResponse, error) {
				return c.ListScheduled(ctx, &mqpb.ListScheduledRequest{Partition: mqpb.FromPartition(p), AfterDue: due, AfterNumber: number, Limit: uint32(limit)})
			})
			if err != nil {
				return err
			}
			for _, s := range r.GetPending() {
				lists[i] = append(lists[i], scheduledPlace{s.GetDue(), n, s.GetNumber()})
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	all := slices.Concat(lists...)
	slices.SortFunc(all, scheduledPlace.compare)
	return all[:min(limit, len(all))], nil
}
