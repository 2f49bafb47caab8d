package api

import "time"

// The states of a schedule in an answer.
const (
	StateScheduled = "scheduled" // pending: it is delivered at DeliverAt
	StateCancelled = "cancelled"
)

// Scheduled is a message that waits for its time, in lists and as the answer to a change of it.
type Scheduled struct {
	ID        string    `json:"id"`
	Topic     string    `json:"topic,omitempty"` // only where the call does not name it
	Partition uint32    `json:"partition"`
	State     string    `json:"state"`
	DeliverAt time.Time `json:"deliver_at,omitzero"`
	DryRun    bool      `json:"dry_run,omitempty"` // nothing was changed
}

// Reschedule is the body of PATCH /v1/scheduled/{id}; one field is given.
type Reschedule struct {
	// DeliverAt is a time in RFC 3339, or "now".
	DeliverAt *string `json:"deliver_at,omitempty"`
	// Delay counts from now.
	Delay *Duration `json:"delay,omitempty"`
}

// ScheduledList is the answer to GET /v1/topics/{t}/scheduled: the first one due comes first.
type ScheduledList struct {
	Scheduled  []Scheduled `json:"scheduled"`
	NextCursor string      `json:"next_cursor,omitempty"`
}
