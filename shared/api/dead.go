package api

import "time"

// DeadFilter chooses dead letters; all that it names must hold, and an empty one takes all.
type DeadFilter struct {
	Reason     string    `json:"reason,omitempty"`     // part of why they died, in any case
	Key        *string   `json:"key,omitempty"`        // the message's key
	DiedAfter  time.Time `json:"died_after,omitzero"`  // then or later
	DiedBefore time.Time `json:"died_before,omitzero"` // before then
	IDs        []string  `json:"ids,omitzero"`         // these messages, at most MaxDeadIDs; an empty list is refused; nil: any
}

// MaxDeadIDs bounds the ids of a filter.
const MaxDeadIDs = 1000

// RedriveRequest is the body of POST …/groups/{g}/redrive.
type RedriveRequest struct {
	Filter *DeadFilter `json:"filter,omitempty"`
	// Rate spreads them, in messages a second over all partitions; 0: all at once.
	Rate  float64 `json:"rate,omitempty"`
	Limit uint64  `json:"limit,omitempty"` // messages at most; 0: no bound
	// To is another topic that they are published to, with headers that tell what became of them, instead of being ready
	// again for the group; they leave the group then. It must have a group that gets them.
	To string `json:"to,omitempty"`
}

// DeadResult says what a redrive or a removal of dead letters did, or with DryRun would do.
type DeadResult struct {
	DryRun   bool   `json:"dry_run"`
	Messages uint64 `json:"messages"`     // moved or removed
	To       string `json:"to,omitempty"` // the topic that they are published to
	// ReadyBy is when the last one is ready, if a rate spreads them.
	ReadyBy    time.Time       `json:"ready_by,omitzero"`
	More       bool            `json:"more,omitempty"`    // limit, time or rate ended it: the same call goes on
	Partial    bool            `json:"partial,omitempty"` // a partition has an error
	Partitions []DeadPartition `json:"partitions"`        // those with messages or errors
}

// DeadPartition is what happened in one partition.
type DeadPartition struct {
	Partition uint32     `json:"partition"`
	Messages  uint64     `json:"messages"`
	Error     *ItemError `json:"error,omitempty"`
}
