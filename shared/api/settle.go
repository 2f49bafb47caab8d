package api

import "time"

// SettleRequest is the body of POST /v1/settle: any number of receipts of any topics and groups.
type SettleRequest struct {
	Ack    []string     `json:"ack,omitempty"`
	Nack   []NackItem   `json:"nack,omitempty"`
	Reject []RejectItem `json:"reject,omitempty"`
	Extend []ExtendItem `json:"extend,omitempty"`
	// Release gives back what nobody began to work on: ready again at once, and the attempt does not count.
	Release []string `json:"release,omitempty"`
}

// NackItem gives a message back as a failed attempt.
type NackItem struct {
	Receipt string    `json:"receipt"`
	Delay   *Duration `json:"delay,omitempty"` // default: the group's back-off
	Reason  string    `json:"reason,omitempty"`
}

// RejectItem makes a message dead at once.
type RejectItem struct {
	Receipt string `json:"receipt"`
	Reason  string `json:"reason,omitempty"`
}

// ExtendItem gives a lease a new end.
type ExtendItem struct {
	Receipt string   `json:"receipt"`
	Lease   Duration `json:"lease,omitzero"` // from now; default: the group's setting
}

// ActRequest is the body of POST /v1/ack, /v1/nack, /v1/reject, /v1/extend and /v1/release: one receipt, or several that
// are all settled alike.
type ActRequest struct {
	Receipt  string    `json:"receipt,omitempty"`
	Receipts []string  `json:"receipts,omitempty"`
	Delay    *Duration `json:"delay,omitempty"`  // nack
	Reason   string    `json:"reason,omitempty"` // nack, reject
	Lease    Duration  `json:"lease,omitzero"`   // extend
}

// SettleResult is the result for one receipt; without Error it is done and committed.
type SettleResult struct {
	LeaseExpiresAt time.Time  `json:"lease_expires_at,omitzero"` // extend: the lease's new end
	RetryAt        time.Time  `json:"retry_at,omitzero"`         // nack: when it is ready again
	Error          *ItemError `json:"error,omitempty"`
}

// SettleAnswer has a result per receipt: 200, or 207 when some failed. The order is that of the receipts; in
// a SettleRequest all of ack first, then nack, reject, extend, release. A call with the single-receipt form answers
// a failure as the problem itself.
type SettleAnswer struct {
	Results []SettleResult `json:"results"`
	Failed  int            `json:"failed"`
}
