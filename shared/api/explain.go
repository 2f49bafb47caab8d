package api

import "time"

// Explanation is why a message is not delivered to a group now, the answer to GET /v1/messages/{id}/explain.
type Explanation struct {
	ID    string `json:"id"`
	Group string `json:"group"`
	// State is ready, leased, waiting, parked, dead, acked, scheduled, starting, before_start, filtered, expired,
	// dropped, dead_removed, skipped, settled or lost.
	State    string    `json:"state"`
	Because  string    `json:"because"` // a sentence for people, without a period
	Until    time.Time `json:"until,omitzero"`
	Since    time.Time `json:"since,omitzero"` // when it was settled or died
	Attempt  uint32    `json:"attempt,omitempty"`
	Consumer string    `json:"consumer,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	// Behind is the offset of the message of its key that a parked one waits for.
	Behind *uint64 `json:"behind,omitempty"`
	// Ahead are the ready messages that go before it, by lane.
	Ahead map[string]uint64 `json:"ahead,omitempty"`
}
