package api

import "time"

// Trace is a message's life, the answer to GET /v1/messages/{id}/trace.
type Trace struct {
	ID        string `json:"id"`
	Topic     string `json:"topic"`
	Partition uint32 `json:"partition"`
	// Offset is nil while the message waits for its time: it has none then, and never if it was cancelled.
	Offset *uint64 `json:"offset,omitempty"`
	// State is "scheduled" and DeliverAt set while the message waits. A cancelled one is "cancelled".
	State     string    `json:"state,omitempty"`
	DeliverAt time.Time `json:"deliver_at,omitzero"`
	// Traceparent is the header of that name that the message was published with.
	Traceparent string       `json:"traceparent,omitempty"`
	Events      []TraceEvent `json:"events"` // by time; one without follows what it came after
	Groups      []TraceGroup `json:"groups"`
	Latency     TraceLatency `json:"latency"`
}

// TraceEvent is one thing that happened: PUBLISHED, REPLICATED, DELIVERED, REDELIVERED, EXTENDED, NACKED,
// EXPIRED, ACKNOWLEDGED, DEAD and others of later versions.
type TraceEvent struct {
	// At is left out of a REPLICATED of which the log does not say when it was; AtLatest bounds it then, where anything does.
	At       time.Time `json:"at,omitzero"`
	AtLatest time.Time `json:"at_latest,omitzero"`
	Type     string    `json:"type"`
	Group    string    `json:"group,omitempty"` // "#<id>" once the group is deleted
	Consumer string    `json:"consumer,omitempty"`
	Node     string    `json:"node,omitempty"`
	Attempt  uint32    `json:"attempt,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Until    time.Time `json:"until,omitzero"` // of a lease, a wait or a retention
	Producer string    `json:"producer,omitempty"`
	Gateway  string    `json:"gateway,omitempty"`
	Replicas []string  `json:"replicas,omitempty"`
	Quorum   uint32    `json:"quorum,omitempty"`
}

// TraceGroup is where the message stands in one group.
type TraceGroup struct {
	Group    string    `json:"group"`
	State    string    `json:"state"` // as in an Explanation: ready, leased, acked, expired, skipped and others
	Attempts uint32    `json:"attempts"`
	Until    time.Time `json:"until,omitzero"`
	Consumer string    `json:"consumer,omitempty"`
	// Delivered and Acknowledged are the time from publishing to the first delivery and to the ack.
	Delivered    Duration `json:"delivered_after,omitzero"`
	Acknowledged Duration `json:"acknowledged_after,omitzero"`
}

// TraceLatency sums the trace up: how long after publishing each first happened. What has not happened is
// left out, and so is the commit where its time is not known.
type TraceLatency struct {
	Committed    Duration `json:"committed,omitzero"`
	Delivered    Duration `json:"delivered,omitzero"`    // to the first consumer of any group
	Acknowledged Duration `json:"acknowledged,omitzero"` // by the first group
}
