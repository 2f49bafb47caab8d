package api

import (
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// GroupInput is the body of PUT of a group, and group_defaults of a topic. What is nil gets the topic's
// group_defaults.
type GroupInput struct {
	Start       *StartInput      `json:"start,omitempty"` // counts when the group is made, not later
	Ordering    *string          `json:"ordering,omitempty"`
	Mode        *string          `json:"mode,omitempty"`
	Lease       *Duration        `json:"lease,omitempty"`
	MaxAttempts *int             `json:"max_attempts,omitempty"`
	Backoff     *BackoffInput    `json:"backoff,omitempty"`
	MaxInFlight *int             `json:"max_in_flight,omitempty"` // per partition
	Dead        *DeadLimitsInput `json:"dead,omitempty"`
	Lanes       *LanesInput      `json:"lanes,omitempty"`
	Filter      *mq.Filter       `json:"filter,omitempty"` // replaces the whole filter; empty for every message
	// DeadLetterTopic is where dead letters are published, too; empty for nowhere.
	DeadLetterTopic *string `json:"dead_letter_topic,omitempty"`
}

// LanesInput says how deliveries are spread over the lanes.
type LanesInput struct {
	Mode    string         `json:"mode,omitempty"`    // weighted or strict
	Weights map[string]int `json:"weights,omitempty"` // by the lanes' names, 1 to 1000; what is left out keeps its default
}

// StartInput says where a new group begins.
type StartInput struct {
	At   string    `json:"at"` // earliest, latest or time
	Time time.Time `json:"time,omitzero"`
}

// BackoffInput is how long failed messages wait.
type BackoffInput struct {
	Initial    *Duration `json:"initial,omitempty"`
	Multiplier *float64  `json:"multiplier,omitempty"`
	Max        *Duration `json:"max,omitempty"`
	Jitter     *float64  `json:"jitter,omitempty"`
}

// DeadLimitsInput bound the dead letters of each partition; beyond them the oldest are removed.
type DeadLimitsInput struct {
	MaxCount *int      `json:"max_count,omitempty"` // 0: no limit
	MaxAge   *Duration `json:"max_age,omitempty"`   // since they died; 0s: no limit
	MaxBytes *int64    `json:"max_bytes,omitempty"` // of keys, values, content types and headers; 0: no limit
}

// GroupFigures are counts of messages of a group, of one partition or of all.
type GroupFigures struct {
	Lag      uint64 `json:"lag"`       // neither acked nor dead yet
	Ready    uint64 `json:"ready"`     // could be delivered now
	InFlight uint64 `json:"in_flight"` // leased
	Waiting  uint64 `json:"waiting"`   // for their retry
	Dead     uint64 `json:"dead"`
	// Exported are those of the dead that were published to the dead letter topic.
	Exported uint64 `json:"exported,omitempty"`
	// Parked counts, of Lag, what is known to wait behind another message of its key, in a group that orders by key.
	Parked uint64 `json:"parked,omitempty"`
	// What became of the others since the group was made; each message is in one of these.
	Acked     uint64 `json:"acked"`
	Expired   uint64 `json:"expired"`   // past their TTL
	Filtered  uint64 `json:"filtered"`  // not wanted by the group's filter
	Dropped   uint64 `json:"dropped"`   // removed by retention before they were settled
	Discarded uint64 `json:"discarded"` // dead letters that were deleted or beyond the limits
	Scheduled uint64 `json:"scheduled"` // messages that wait for their time, for all groups; not part of the lag
	// OldestAge is the age of the oldest message that is not settled, 0s for none.
	OldestAge Duration `json:"oldest_age"`
}

// LaneFigures are counts of the messages of one lane.
type LaneFigures struct {
	Lag      uint64 `json:"lag"`
	InFlight uint64 `json:"in_flight"`
	Waiting  uint64 `json:"waiting"`
	Dead     uint64 `json:"dead"`
}

// LaneCounts are figures by lane: of those that have something, and only if another one than normal has.
type LaneCounts map[string]LaneFigures

// Add adds to the figures of a lane.
func (c *LaneCounts) Add(lane string, f LaneFigures) {
	if *c == nil {
		*c = LaneCounts{}
	}
	sum := (*c)[lane]
	sum.Lag += f.Lag
	sum.InFlight += f.InFlight
	sum.Waiting += f.Waiting
	sum.Dead += f.Dead
	(*c)[lane] = sum
}

// Group is one group with its settings and figures. Its ETag is that of the settings.
type Group struct {
	Name     string           `json:"name"`
	Topic    string           `json:"topic"`
	State    string           `json:"state"` // ready, starting or paused
	Paused   bool             `json:"paused"`
	Settings mq.GroupSettings `json:"settings"`
	GroupFigures
	Lanes      LaneCounts       `json:"lanes,omitempty"`
	Partial    bool             `json:"partial,omitempty"` // some leaders did not answer
	Partitions []GroupPartition `json:"partitions"`
}

// GroupPartition is what a group has in one partition.
type GroupPartition struct {
	Partition uint32 `json:"partition"`
	// GroupPartitionFigures is nil where the leader did not answer: Error says why, and nobody knows the figures. Look at it before
	// you read one of its fields. In JSON they are all left out then.
	*GroupPartitionFigures
	Error *ItemError `json:"error,omitempty"`
}

// GroupPartitionFigures is what the leader of a partition says of a group.
type GroupPartitionFigures struct {
	Cursor     uint64 `json:"cursor"` // the lowest offset that is not settled
	NextOffset uint64 `json:"next_offset"`
	GroupFigures
	Lanes LaneCounts `json:"lanes,omitempty"`
	// Unreadable are those of the partition (see Partition) that end behind the cursor: messages there are delivered once they can
	// be read again.
	Unreadable []OffsetRange `json:"unreadable,omitempty"`
}

// GroupSummary is a group in a list.
type GroupSummary struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Paused bool   `json:"paused"`
	GroupFigures
	Partial bool `json:"partial,omitempty"`
}

// GroupList is the answer to GET /v1/topics/{t}/groups.
type GroupList struct {
	Groups     []GroupSummary `json:"groups"`
	NextCursor string         `json:"next_cursor,omitempty"`
}

// HeldMessage is a message as a group holds it.
type HeldMessage struct {
	ID        string    `json:"id"`
	Partition uint32    `json:"partition"`
	Offset    uint64    `json:"offset"`
	State     string    `json:"state"` // ready, leased, waiting, parked or dead
	Attempt   uint32    `json:"attempt"`
	Until     time.Time `json:"until,omitzero"` // leased: the lease's end; waiting: the retry; dead: since when
	Consumer  string    `json:"consumer,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Lane      string    `json:"lane"`
	Behind    *uint64   `json:"behind,omitempty"`   // parked: the offset of the message that it waits for
	Timestamp time.Time `json:"timestamp,omitzero"` // when it was published
	// FirstDelivery and LastDelivery are when it was handed out, as Attempt counts; zero for never.
	FirstDelivery time.Time `json:"first_delivery,omitzero"`
	LastDelivery  time.Time `json:"last_delivery,omitzero"`
	// History is what became of the attempts of a dead letter, in order, if it was asked for: the newest MaxHistory, of which
	// HistoryLeftOut are older. HistoryError says why there is none.
	History        []DeadAttempt `json:"history,omitempty"`
	HistoryLeftOut int           `json:"history_left_out,omitempty"`
	HistoryError   *ItemError    `json:"history_error,omitempty"`
}

// MaxHistory bounds the history of a dead letter; all of it is in the message's trace.
const MaxHistory = 100

// DeadAttempt is one attempt of a dead letter, or what made attempts begin anew: a redrive, a seek.
type DeadAttempt struct {
	Attempt     uint32    `json:"attempt,omitempty"`
	DeliveredAt time.Time `json:"delivered_at,omitzero"` // not of what retention has removed
	// Consumer is who had it: the name that a receive gave, or its member's; of a webhook the gateway.
	Consumer string    `json:"consumer,omitempty"`
	EndedAt  time.Time `json:"ended_at,omitzero"`
	// Result is failed (a nack), lease_expired, dead, postponed or returned (both not counted), acked, redriven, seek, removed,
	// expired (past its TTL) or filtered; left out where the log does not say how it ended.
	Result  string    `json:"result,omitempty"`
	Reason  string    `json:"reason,omitempty"`  // of a webhook: status, time and the begin of the answer
	RetryAt time.Time `json:"retry_at,omitzero"` // when it was or is ready again
}

// HeldList is the answer to GET …/groups/{g}/messages and …/dead.
type HeldList struct {
	Messages   []HeldMessage `json:"messages"`
	NextCursor string        `json:"next_cursor,omitempty"`
}
