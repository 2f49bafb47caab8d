package api

// ConfigChange is the answer to a PUT or PATCH of a topic, group or webhook with ?dry_run=true: what would change. The
// request is checked as it would be without, so an error is the one that the real call would get.
type ConfigChange struct {
	DryRun  bool   `json:"dry_run"` // always true
	Topic   string `json:"topic"`
	Group   string `json:"group,omitempty"`   // of a group
	Webhook string `json:"webhook,omitempty"` // of a webhook
	// Created: there is none of this name, so all of it would be new and Changes is empty.
	Created bool `json:"created"`
	// Changes are the settings that would be others, by pointer; empty when nothing would change.
	Changes []SettingChange `json:"changes"`
	// Removal is what a topic's retention would remove by the new settings; nil where no change removes anything.
	Removal *Removal `json:"removal,omitempty"`
}

// Removal is how much retention would remove by other settings, as far as the leaders of the partitions answer. It goes by whole
// segments, and takes what expired over some hours. Bytes are an upper bound: what is carried forward (scheduled
// messages, dead letters) is in them.
type Removal struct {
	Segments uint64 `json:"segments"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"` // on one replica
	// Partial: some leaders did not answer; their partitions have an Error and are not in the sums.
	Partial    bool               `json:"partial,omitempty"`
	Partitions []PartitionRemoval `json:"partitions"`
}

// PartitionRemoval is the share of one partition in a Removal.
type PartitionRemoval struct {
	Partition uint32 `json:"partition"`
	Segments  uint64 `json:"segments"`
	Messages  uint64 `json:"messages"`
	Bytes     uint64 `json:"bytes"`
	// KeptFor is an active group that keeps the next segment and all behind it, as it has not settled everything there.
	KeptFor string     `json:"kept_for,omitempty"`
	Error   *ItemError `json:"error,omitempty"`
}

// SettingChange is a setting that would change.
type SettingChange struct {
	Setting string `json:"setting"`        // JSON pointer: /retention/time
	From    any    `json:"from,omitempty"` // left out when it was not set
	To      any    `json:"to,omitempty"`   // left out when it would be unset
	// Removes: what is kept now and lies beyond the new value is removed by it.
	Removes bool `json:"removes,omitempty"`
}
