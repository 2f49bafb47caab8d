package api

import (
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// TopicInput is the body of PUT and PATCH of a topic. In a PUT what is nil gets its default, in a PATCH (a
// JSON merge patch) it stays; a JSON null sets the default in both.
type TopicInput struct {
	Partitions      *uint32         `json:"partitions,omitempty"` // can only grow
	Replicas        *int            `json:"replicas,omitempty"`   // fixed when the topic is made
	AckQuorum       *int            `json:"ack_quorum,omitempty"` // fixed when the topic is made
	Retention       *RetentionInput `json:"retention,omitempty"`
	MaxMessageBytes *int            `json:"max_message_bytes,omitempty"`
	Compression     *string         `json:"compression,omitempty"` // none, s2 or zstd
	GroupDefaults   *GroupInput     `json:"group_defaults,omitempty"`
	Archive         *bool           `json:"archive,omitempty"` // what retention removes goes to the archive before
}

// RetentionInput is the part of TopicInput that says how long messages stay.
type RetentionInput struct {
	Time          *Duration `json:"time,omitempty"`
	Bytes         *int64    `json:"bytes,omitempty"`
	KeepUnsettled *bool     `json:"keep_unsettled,omitempty"`
	// MaxShare is how much of what is kept the limit by time removes within an hour at most, 0 to 1; 0 is a tenth, 1 no limit.
	MaxShare *float64 `json:"max_share,omitempty"`
}

// The states of a topic, a partition and a group.
const (
	StateReady    = "ready"     // all of it serves
	StateOpening  = "opening"   // a partition has no leader yet, or has lost it
	StateDegraded = "degraded"  // it serves with fewer replicas than it should have
	StateReadOnly = "read_only" // it is damaged, and only what is left can be read; the error of a partition says more
	StateDeleting = "deleting"
	StateStarting = "starting" // a group that not every partition knows yet
	StatePaused   = "paused"   // a group that is not delivered to
)

// TopicSummary is a topic in a list. Figures are those of the partitions whose leaders answered; Partial
// says that some did not.
type TopicSummary struct {
	Name           string    `json:"name"`
	State          string    `json:"state"`
	Created        time.Time `json:"created"`
	Messages       uint64    `json:"messages"`  // kept now
	Bytes          uint64    `json:"bytes"`     // stored by the leaders
	Scheduled      uint64    `json:"scheduled"` // wait for their time, and are not among messages
	PublishRate    float64   `json:"publish_rate"`
	DeliverRate    float64   `json:"deliver_rate"` // messages a second, over about the last 10 s
	Partial        bool      `json:"partial,omitempty"`
	PartitionCount int       `json:"partition_count"`
}

// Topic is one topic with its settings and figures. Its ETag is that of the settings.
type Topic struct {
	TopicSummary
	Settings    mq.TopicSettings  `json:"settings"`
	Idempotency IdempotencyWindow `json:"idempotency"`
	Partitions  []Partition       `json:"partitions"`
}

// IdempotencyWindow is how long an idempotency key counts: for Time, and while it is among the last Keys of its
// partition.
type IdempotencyWindow struct {
	Time Duration `json:"time"`
	Keys int      `json:"keys"`
}

// IdempotencyFigures are the keys that a partition holds now.
type IdempotencyFigures struct {
	Keys   uint64    `json:"keys"`
	Oldest time.Time `json:"oldest,omitzero"`
}

// Partition is one partition of a topic.
type Partition struct {
	Partition uint32    `json:"partition"`
	State     string    `json:"state"`
	Leader    string    `json:"leader,omitempty"` // the node's name
	Replicas  []Replica `json:"replicas"`
	AckQuorum int       `json:"ack_quorum"`
	// PartitionFigures is nil where the leader did not answer: Error says why, and nobody knows the figures. Look at it before you
	// read one of its fields. In JSON they are all left out then.
	*PartitionFigures
	// Lost are the ranges of offsets that are recorded as lost; reads there answer 410 lost.
	Lost []LostRange `json:"lost,omitempty"`
	// Error says why there are no figures, or why the partition is read_only.
	Error *ItemError `json:"error,omitempty"`
}

// PartitionFigures is what the leader of a partition says of it.
type PartitionFigures struct {
	FirstOffset uint64    `json:"first_offset"` // the first one kept
	NextOffset  uint64    `json:"next_offset"`  // the one that the next message gets
	Messages    uint64    `json:"messages"`
	Bytes       uint64    `json:"bytes"`
	Segments    uint64    `json:"segments"`
	Scheduled   uint64    `json:"scheduled"`         // wait for their time
	NextDue     time.Time `json:"next_due,omitzero"` // of the first of them
	PublishRate float64   `json:"publish_rate"`
	DeliverRate float64   `json:"deliver_rate"`
	// Unreadable are the ranges of offsets, at most 100, in which something can't be read from any replica; the partition goes on.
	Unreadable  []OffsetRange      `json:"unreadable,omitempty"`
	Idempotency IdempotencyFigures `json:"idempotency"`
}

// OffsetRange is a range of offsets of a partition, from From (inclusive) to To (exclusive).
type OffsetRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// LostRange is a range of offsets of a partition that is recorded as lost, from From (inclusive) to To (exclusive).
// Most of them are offsets that were never given: a forced partition goes on 2^32 further.
type LostRange struct {
	From uint64    `json:"from"`
	To   uint64    `json:"to"`
	At   time.Time `json:"at,omitzero"` // when it was recorded; not in a dry run
	// Forced: an operator said so. Otherwise nothing in the range was ever acknowledged.
	Forced bool   `json:"forced"`
	By     string `json:"by,omitempty"`   // who said so
	Node   string `json:"node,omitempty"` // the replica that was named to go on with
}

// Replica is one holder of a partition's open segment.
type Replica struct {
	Node   string `json:"node"`
	Leader bool   `json:"leader"`
	Alive  bool   `json:"alive"` // its node is registered, with the same store
	// BehindBytes is what it has not got yet; nil where the leader did not say.
	BehindBytes *uint64 `json:"behind_bytes,omitempty"`
}

// TopicList is the answer to GET /v1/topics.
type TopicList struct {
	Topics     []TopicSummary `json:"topics"`
	NextCursor string         `json:"next_cursor,omitempty"`
}

// Deletion is the answer to DELETE of a topic or group: what is removed, or with ?dry_run=true would be.
type Deletion struct {
	DryRun   bool     `json:"dry_run"`
	Topic    string   `json:"topic"`
	Group    string   `json:"group,omitempty"`
	Groups   []string `json:"groups,omitempty"`    // that go with the topic
	Messages uint64   `json:"messages"`            // kept (topic), or not settled (group)
	Bytes    uint64   `json:"bytes,omitempty"`     // of the topic
	Dead     uint64   `json:"dead,omitempty"`      // dead letters of the group that are forgotten
	Partial  bool     `json:"partial,omitempty"`   // some leaders did not say
	InFlight uint64   `json:"in_flight,omitempty"` // leases of the group that end
}
