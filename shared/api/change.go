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
}

// SettingChange is a setting that would change.
type SettingChange struct {
	Setting string `json:"setting"`        // JSON pointer: /retention/time
	From    any    `json:"from,omitempty"` // left out when it was not set
	To      any    `json:"to,omitempty"`   // left out when it would be unset
	// Removes: what is kept now and lies beyond the new value is removed by it.
	Removes bool `json:"removes,omitempty"`
}
