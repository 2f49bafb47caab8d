package mq

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Duration is a time.Duration that reads and writes as text ("30s", "5m", "168h").
type Duration time.Duration

// String writes the duration as people do: 5m and not 5m0s.
func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("a duration looks like 30s, 5m or 168h; not %q", b)
	}
	*d = Duration(v)
	return nil
}

// Bounds of settings.
const (
	MaxPartitions  = 1024
	MaxLease       = 12 * time.Hour
	MinLease       = 100 * time.Millisecond
	MaxWait        = 30 * time.Second
	MaxBackoff     = 24 * time.Hour
	MaxInFlightCap = 100_000
	MaxDeadCount   = 1_000_000
	MaxDeadBytes   = 1 << 40
	MinTTL         = time.Millisecond
	MaxTTL         = 10 * 365 * 24 * time.Hour
)

// Retention says how long a topic's messages stay.
type Retention struct {
	Time          Duration `json:"time"`           // 0: no limit by time
	Bytes         int64    `json:"bytes"`          // per topic; 0: no limit by size
	KeepUnsettled bool     `json:"keep_unsettled"` // what an active group has not settled stays
	// MaxShare is how much of what is kept the limit by time removes within an hour at most: a clock or a setting that is wrong
	// is noticed before everything is gone. 0 is a tenth, 1 is no limit.
	MaxShare float64 `json:"max_share,omitempty"`
}

// Share is MaxShare, or its default.
func (r *Retention) Share() float64 {
	if r.MaxShare == 0 {
		return 0.1
	}
	return r.MaxShare
}

// TopicSettings are what the owner of a topic chose; see DefaultTopicSettings.
type TopicSettings struct {
	Partitions      uint32        `json:"partitions"`
	Replicas        int           `json:"replicas"`   // 0: by the size of the cluster when the topic is made
	Quorum          int           `json:"ack_quorum"` // 0: a majority of Replicas
	Retention       Retention     `json:"retention"`
	MaxMessageBytes int           `json:"max_message_bytes"`
	Compression     string        `json:"compression"` // none, s2 or zstd
	GroupDefaults   GroupSettings `json:"group_defaults"`
	Archive         bool          `json:"archive,omitempty"` // what retention removes goes to the nodes' archive before
}

// DefaultTopicSettings are used where an owner says nothing.
func DefaultTopicSettings() TopicSettings {
	return TopicSettings{
		Partitions:      4,
		Retention:       Retention{Time: Duration(7 * 24 * time.Hour), KeepUnsettled: true},
		MaxMessageBytes: DefaultMaxMessageBytes,
		Compression:     "none",
		GroupDefaults:   DefaultGroupSettings(),
	}
}

// FieldError is a bad field of settings, with a JSON pointer to it.
type FieldError struct {
	Pointer string
	Detail  string
}

func (e FieldError) Error() string { return e.Pointer + ": " + e.Detail }

// checks gathers all bad fields instead of the first one.
type checks []error

func (c *checks) want(ok bool, pointer, format string, args ...any) {
	if !ok {
		*c = append(*c, FieldError{pointer, fmt.Sprintf(format, args...)})
	}
}

func between[T int | int64 | uint32 | time.Duration](v, low, high T) bool {
	return low <= v && v <= high
}

// Validate reports every bad field at once (errors.Join of FieldError), pointers beginning with at.
func (t *TopicSettings) Validate(at string) error {
	var c checks
	c.want(between(t.Partitions, 1, MaxPartitions), at+"/partitions", "must be 1 to %d", MaxPartitions)
	c.want(between(t.Replicas, 0, 7), at+"/replicas", "must be 1 to 7, or 0 for the default")
	c.want(t.Quorum >= 0 && (t.Replicas == 0 && t.Quorum == 0 || t.Quorum <= t.Replicas), at+"/ack_quorum",
		"must be 1 to the number of replicas, or 0 for a majority")
	c.want(t.Quorum == 0 || 2*t.Quorum > t.Replicas, at+"/ack_quorum", "must be more than half of the replicas")
	c.want(t.Retention.Time == 0 || between(time.Duration(t.Retention.Time), time.Minute, 10*365*24*time.Hour),
		at+"/retention/time", "must be at least 1m and at most 87600h, or 0s for no limit")
	c.want(t.Retention.MaxShare >= 0 && t.Retention.MaxShare <= 1, at+"/retention/max_share", "must be from 0 (a tenth) to 1 (no limit)")
	c.want(t.Retention.Bytes >= 0, at+"/retention/bytes", "must be 0 (no limit) or more")
	c.want(between(t.MaxMessageBytes, 1, LargestMaxMessageBytes), at+"/max_message_bytes", "must be 1 to %d", LargestMaxMessageBytes)
	c.want(t.Compression == "none" || t.Compression == "s2" || t.Compression == "zstd", at+"/compression", "must be none, s2 or zstd")
	if err := t.GroupDefaults.Validate(at + "/group_defaults"); err != nil {
		c = append(c, err)
	}
	return errors.Join(c...)
}

// Backoff is how long a failed message waits: Initial x Multiplier^(attempt-1), at most Max, spread by
// plus or minus Jitter (a share, 0 to 1).
type Backoff struct {
	Initial    Duration `json:"initial"`
	Multiplier float64  `json:"multiplier"`
	Max        Duration `json:"max"`
	Jitter     float64  `json:"jitter"`
}

// Start is where a new group begins: "earliest", "latest", or "time" with Time set.
type Start struct {
	At   string    `json:"at"`
	Time time.Time `json:"time,omitzero"`
}

// Modes of a group: who receives from its partitions.
const (
	ModeShared   = "shared"   // anybody, from any partition
	ModeAssigned = "assigned" // members that joined, each from the partitions that are assigned to it
	ModePush     = "push"     // the living gateways are the members; groups of webhooks have it, users can't choose it
)

// ByMembers says whether each partition of a group of this mode has one owner at a time.
func ByMembers(mode string) bool { return mode == ModeAssigned || mode == ModePush }

// Bounds of members of assigned groups.
const (
	MaxGroups        = 1000 // of a topic
	MaxMembers       = 1000 // in a group
	MinMemberTTL     = 2 * time.Second
	MaxMemberTTL     = 5 * time.Minute
	DefaultMemberTTL = 10 * time.Second
)

// DeadLimits bound the dead letters of a group in each partition; beyond them the oldest are removed.
type DeadLimits struct {
	MaxCount int      `json:"max_count"` // 0: no limit
	MaxAge   Duration `json:"max_age"`   // since they died; 0: no limit
	MaxBytes int64    `json:"max_bytes"` // of keys, values, content types and headers; 0: no limit
}

// Orderings of a group.
const (
	OrderingNone = "none"
	OrderingKey  = "key" // at most one message of a key is out at a time, in the order of their offsets
)

// GroupSettings are what the owner of a group chose. They travel whole in the group record.
type GroupSettings struct {
	Start       Start        `json:"start"`
	Ordering    string       `json:"ordering"` // OrderingNone or OrderingKey
	Lanes       LaneSettings `json:"lanes"`
	Mode        string       `json:"mode"` // ModeShared, ModeAssigned or ModePush
	Lease       Duration     `json:"lease"`
	MaxAttempts int          `json:"max_attempts"` // 0: no limit
	Backoff     Backoff      `json:"backoff"`
	MaxInFlight int          `json:"max_in_flight"` // per partition
	Dead        DeadLimits   `json:"dead"`
	Filter      Filter       `json:"filter,omitempty"` // nil: every message
	// DeadLetterTopic is where dead letters are published, too; "" for nowhere. They stay in the group.
	DeadLetterTopic string `json:"dead_letter_topic,omitempty"`
}

// DefaultGroupSettings are used where an owner says nothing.
func DefaultGroupSettings() GroupSettings {
	return GroupSettings{
		Start:       Start{At: "earliest"},
		Ordering:    OrderingNone,
		Lanes:       DefaultLaneSettings(),
		Mode:        ModeShared,
		Lease:       Duration(30 * time.Second),
		MaxAttempts: 5,
		Backoff:     Backoff{Initial: Duration(time.Second), Multiplier: 2, Max: Duration(5 * time.Minute), Jitter: 0.2},
		MaxInFlight: 10_000,
	}
}

// Validate reports every bad field at once, pointers beginning with at.
func (g *GroupSettings) Validate(at string) error {
	var c checks
	c.want(g.Start.At == "earliest" || g.Start.At == "latest" || g.Start.At == "time", at+"/start/at", "must be earliest, latest or time")
	c.want((g.Start.At == "time") == !g.Start.Time.IsZero(), at+"/start/time", "goes with start.at = time, and only with it")
	if err := g.Lanes.validate(at + "/lanes"); err != nil {
		c = append(c, err)
	}
	c.want(g.Ordering == OrderingNone || g.Ordering == OrderingKey, at+"/ordering", "must be none or key")
	c.want(g.Mode == ModeShared || g.Mode == ModeAssigned || g.Mode == ModePush, at+"/mode", "must be shared or assigned")
	c.want(between(time.Duration(g.Lease), MinLease, MaxLease), at+"/lease", "must be %s to %s", Duration(MinLease), Duration(MaxLease))
	c.want(between(g.MaxAttempts, 0, 10_000), at+"/max_attempts", "must be 1 to 10000, or 0 for no limit")
	b := g.Backoff
	c.want(between(time.Duration(b.Initial), 0, MaxBackoff), at+"/backoff/initial", "must be 0s to %s", Duration(MaxBackoff))
	c.want(between(time.Duration(b.Max), time.Duration(b.Initial), MaxBackoff), at+"/backoff/max", "must be initial to %s", Duration(MaxBackoff))
	c.want(b.Multiplier >= 1 && b.Multiplier <= 100, at+"/backoff/multiplier", "must be 1 to 100")
	c.want(b.Jitter >= 0 && b.Jitter <= 1, at+"/backoff/jitter", "must be 0 to 1")
	c.want(between(g.MaxInFlight, 1, MaxInFlightCap), at+"/max_in_flight", "must be 1 to %d", MaxInFlightCap)
	c.want(between(g.Dead.MaxCount, 0, MaxDeadCount), at+"/dead/max_count", "must be 1 to %d, or 0 for no limit", MaxDeadCount)
	c.want(g.Dead.MaxAge == 0 || between(time.Duration(g.Dead.MaxAge), time.Second, 10*365*24*time.Hour),
		at+"/dead/max_age", "must be 1s to 87600h, or 0s for no limit")
	c.want(between(g.Dead.MaxBytes, 0, MaxDeadBytes), at+"/dead/max_bytes", "must be 1 to %d, or 0 for no limit", int64(MaxDeadBytes))
	g.Filter.check(&c, at+"/filter")
	if g.DeadLetterTopic != "" {
		if err := CheckName(g.DeadLetterTopic); err != nil {
			c = append(c, FieldError{at + "/dead_letter_topic", err.Error()})
		}
	}
	return errors.Join(c...)
}
