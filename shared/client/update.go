package client

import (
	"context"
	"maps"
	"net/http"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// UpdateGroup changes the settings that change names and leaves the others. It reads the group and puts it
// back on the condition that nobody changed it meanwhile; when somebody did it begins again, at most
// as often as Retry says, and then fails with precondition_failed. Start has no effect on a group that is
// there.
func (c *Client) UpdateGroup(ctx context.Context, topic, group string, change api.GroupInput) (api.Group, error) {
	return update(ctx, c, pathOf("topics", topic, "groups", group), func(g *api.Group) any { return merged(&g.Settings, change) })
}

// maxUpdates bounds how often an update begins anew since somebody else was quicker.
const maxUpdates = 8

// update reads what is at path, and puts back what change makes of it if nobody else did meanwhile.
func update[T any](ctx context.Context, c *Client, path string, change func(*T) any) (out T, err error) {
	for attempt := 1; ; attempt++ {
		var now T
		read := &call{method: http.MethodGet, path: path, header: http.Header{}, repeatable: true}
		header, err := c.exchange(ctx, read, &now)
		if err != nil {
			return out, err
		}
		// A lost answer is not asked for again: by then the condition would no longer hold.
		put, err := newCall(http.MethodPut, path, change(&now), false)
		if err != nil {
			return out, err
		}
		if tag := header.Get("ETag"); tag != "" {
			put.header.Set("If-Match", tag)
		}
		_, err = c.exchange(ctx, put, &out)
		if !IsCode(err, mqerr.PreconditionFailed) || attempt >= min(c.retry.Attempts, maxUpdates) {
			return out, err
		}
	}
}

// merged is the whole settings with the changes: what a PUT leaves out would get the topic's defaults.
func merged(old *mq.GroupSettings, change api.GroupInput) api.GroupInput {
	in := api.GroupInput{
		Start:       &api.StartInput{At: old.Start.At, Time: old.Start.Time},
		Ordering:    &old.Ordering,
		Mode:        &old.Mode,
		Lease:       &old.Lease,
		MaxAttempts: &old.MaxAttempts,
		MaxInFlight: &old.MaxInFlight,
		Backoff: &api.BackoffInput{Initial: &old.Backoff.Initial, Multiplier: &old.Backoff.Multiplier,
			Max: &old.Backoff.Max, Jitter: &old.Backoff.Jitter},
		Dead:   &api.DeadLimitsInput{MaxCount: &old.Dead.MaxCount, MaxAge: &old.Dead.MaxAge, MaxBytes: &old.Dead.MaxBytes},
		Filter: &old.Filter, DeadLetterTopic: &old.DeadLetterTopic,
		Lanes: &api.LanesInput{Mode: old.Lanes.Mode, Weights: weightsOf(old.Lanes)},
	}
	override(&in.Start, change.Start)
	override(&in.Ordering, change.Ordering)
	override(&in.Mode, change.Mode)
	override(&in.Lease, change.Lease)
	override(&in.MaxAttempts, change.MaxAttempts)
	override(&in.MaxInFlight, change.MaxInFlight)
	override(&in.Filter, change.Filter)
	override(&in.DeadLetterTopic, change.DeadLetterTopic)
	if l := change.Lanes; l != nil {
		if l.Mode != "" {
			in.Lanes.Mode = l.Mode
		}
		maps.Copy(in.Lanes.Weights, l.Weights)
	}
	if d := change.Dead; d != nil {
		override(&in.Dead.MaxCount, d.MaxCount)
		override(&in.Dead.MaxAge, d.MaxAge)
		override(&in.Dead.MaxBytes, d.MaxBytes)
	}
	if b := change.Backoff; b != nil {
		override(&in.Backoff.Initial, b.Initial)
		override(&in.Backoff.Multiplier, b.Multiplier)
		override(&in.Backoff.Max, b.Max)
		override(&in.Backoff.Jitter, b.Jitter)
	}
	return in
}

func weightsOf(s mq.LaneSettings) map[string]int {
	out := map[string]int{}
	for l := range mq.Lane(mq.Lanes) {
		out[l.String()] = s.Weight(l)
	}
	return out
}

func override[T any](at **T, with *T) {
	if with != nil {
		*at = with
	}
}
