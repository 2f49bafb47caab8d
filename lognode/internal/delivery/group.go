package delivery

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// GroupConfig is what a partition knows of a group's configuration. It travels whole in the group record.
type GroupConfig struct {
	ID       mq.GroupID
	Name     string
	Version  uint64 // rises with each change of the settings or of Paused
	Settings mq.GroupSettings
	// Start is the first offset that the group gets, resolved by the caller from Settings.Start.
	Start  uint64
	Paused bool
}

// EnsureGroup makes the group if this partition does not know it, or takes over a higher version of its
// configuration (its start stays). A version that is not higher is a no-op. A start beyond what is committed becomes
// the committed end: what lies between may never commit, and other messages would get those offsets. One below what was dropped
// becomes the first offset that was not, though the caller may have looked before its segment went: what lies there
// would be counted, and never come.
func (m *Machine) EnsureGroup(now int64, c GroupConfig) error {
	if !m.leading {
		return ErrNotLeading
	}
	if c.ID == 0 {
		return fmt.Errorf("delivery: a group needs an id")
	}
	if err := c.Settings.Validate("/settings"); err != nil {
		return err
	}
	if g := m.groups[c.ID]; g != nil {
		if c.Version <= g.Version {
			return nil
		}
		c.Start = g.Start
	} else {
		if len(m.groups) >= MaxGroups {
			return ErrTooManyGroups
		}
		c.Start = min(max(c.Start, m.lanes.base), m.committed)
	}
	c.Settings.Start.Time = c.Settings.Start.Time.UTC().Round(0) // as it is read back
	change := groupChange{now: now, op: groupSet, config: c}
	m.scratch = change.append(m.scratch[:0])
	m.write(mq.KindGroup, m.scratch, true)
	m.setGroup(c)
	m.countDead(m.groups[c.ID], now)
	m.done()
	return nil
}

// DeleteGroup forgets everything about a group. An unknown one is a no-op.
func (m *Machine) DeleteGroup(now int64, id mq.GroupID) error {
	if !m.leading {
		return ErrNotLeading
	}
	if m.groups[id] == nil {
		return nil
	}
	change := groupChange{now: now, op: groupDelete, config: GroupConfig{ID: id}}
	m.scratch = change.append(m.scratch[:0])
	m.write(mq.KindGroup, m.scratch, true)
	m.removeGroup(id)
	m.done()
	return nil
}

// Groups are the configurations of all groups, by id.
func (m *Machine) Groups() []GroupConfig {
	out := make([]GroupConfig, 0, len(m.groups))
	for _, g := range m.sorted() {
		out = append(out, g.GroupConfig)
	}
	return out
}

func (m *Machine) sorted() []*group {
	out := make([]*group, 0, len(m.groups))
	for _, g := range m.groups {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *group) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out
}

func (m *Machine) setGroup(c GroupConfig) {
	g := m.groups[c.ID]
	if g == nil {
		c.Start = min(c.Start, m.committed) // as EnsureGroup had it
		g = m.newGroup(c)
	} else if c.Version > g.Version {
		c.Start = g.Start
		m.filters += c.Settings.Filter.Size() - g.Settings.Filter.Size()
		g.GroupConfig = c
		g.seen = 0
		if g.keyed != nil {
			g.rekey() // another filter may want others
		}
	}
	m.orders(g)
	g.more = true
	m.touch(g)
}

func (m *Machine) removeGroup(id mq.GroupID) {
	g := m.groups[id]
	if g == nil {
		return
	}
	m.unorder(g)
	for off, x := range g.out {
		g.leave(x)
		g.remove(off, x)
	}
	for l := range g.early {
		m.spans -= len(g.early[l].spans)
	}
	m.filters -= g.Settings.Filter.Size()
	g.dropSnapshots()
	delete(m.groups, id)
	for _, g := range m.groups { // the shares of the others are larger now
		m.touch(g)
	}
}

// Operations of a group record. Numbers are stored.
const (
	groupSet    = 1
	groupDelete = 2
	groupSeek   = 3 // see seekChange
)

// groupChange is the group record.
//
// Form: operation (1) | group | now (signed), and for set: name | version | start | flags (1: paused) | settings.
type groupChange struct {
	op     byte
	now    int64
	config GroupConfig
	seek   seekChange
}

func (c *groupChange) append(b []byte) []byte {
	if c.op == groupSeek {
		return c.seek.append(b)
	}
	b = append(b, c.op)
	b = binary.AppendUvarint(b, uint64(c.config.ID))
	b = binary.AppendVarint(b, c.now)
	if c.op == groupSet {
		b = appendConfig(b, &c.config)
	}
	return b
}

func (c *groupChange) read(body []byte) error {
	r := mq.NewReader(body)
	c.op = r.Byte()
	id := mq.GroupID(r.Uvarint())
	c.now = readTime(r)
	switch c.op {
	case groupSet:
		c.config = readConfig(r)
	case groupDelete:
		c.config = GroupConfig{}
	case groupSeek:
		c.config = GroupConfig{}
		c.seek = seekChange{group: id, now: c.now}
		c.seek.readRest(r)
	default:
		r.Fail("group operation %d", c.op)
	}
	c.config.ID = id
	return end(r, "group")
}

func appendConfig(b []byte, c *GroupConfig) []byte {
	b = mq.AppendBytes(b, c.Name)
	b = binary.AppendUvarint(b, c.Version)
	b = binary.AppendUvarint(b, c.Start)
	paused := byte(0)
	if c.Paused {
		paused = 1
	}
	b = append(b, paused)
	s := &c.Settings
	b = mq.AppendBytes(b, s.Start.At)
	b = binary.AppendVarint(b, s.Start.Time.Unix())
	b = binary.AppendUvarint(b, uint64(s.Start.Time.Nanosecond()))
	b = mq.AppendBytes(b, s.Ordering)
	w := s.Lanes.Weights
	b = mq.AppendBytes(b, s.Lanes.Mode)
	for _, v := range [mq.Lanes]int{w.Critical, w.High, w.Normal, w.Low, w.Background} {
		b = binary.AppendVarint(b, int64(v))
	}
	b = mq.AppendBytes(b, s.Mode)
	b = binary.AppendVarint(b, int64(s.Lease))
	b = binary.AppendVarint(b, int64(s.MaxAttempts))
	b = binary.AppendVarint(b, int64(s.Backoff.Initial))
	b = binary.AppendVarint(b, int64(s.Backoff.Max))
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(s.Backoff.Multiplier))
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(s.Backoff.Jitter))
	b = binary.AppendVarint(b, int64(s.MaxInFlight))
	b = binary.AppendVarint(b, int64(s.Dead.MaxCount))
	b = binary.AppendVarint(b, int64(s.Dead.MaxAge))
	b = binary.AppendVarint(b, s.Dead.MaxBytes)
	b = mq.AppendBytes(b, s.DeadLetterTopic)
	return s.Filter.Append(b)
}

// readConfig reads all but the id. Settings that no version of EnsureGroup lets through are an error, so that what
// the decisions compute from them stays in bounds.
func readConfig(r *mq.Reader) GroupConfig {
	c := GroupConfig{Name: r.String(), Version: r.Uvarint(), Start: r.Uvarint()}
	paused := r.Byte()
	c.Paused = paused == 1
	s := &c.Settings
	s.Start.At = r.String()
	sec, ns := r.Varint(), r.Uvarint()
	s.Start.Time = time.Unix(sec, int64(ns%1e9)).UTC()
	s.Ordering = r.String()
	w := &s.Lanes.Weights
	s.Lanes.Mode = r.String()
	for _, v := range [mq.Lanes]*int{&w.Critical, &w.High, &w.Normal, &w.Low, &w.Background} {
		*v = int(r.Varint())
	}
	s.Mode = r.String()
	s.Lease, s.MaxAttempts = mq.Duration(r.Varint()), int(r.Varint())
	s.Backoff.Initial, s.Backoff.Max = mq.Duration(r.Varint()), mq.Duration(r.Varint())
	s.Backoff.Multiplier = math.Float64frombits(r.Fixed64())
	s.Backoff.Jitter = math.Float64frombits(r.Fixed64())
	s.MaxInFlight = int(r.Varint())
	s.Dead = mq.DeadLimits{MaxCount: int(r.Varint()), MaxAge: mq.Duration(r.Varint()), MaxBytes: r.Varint()}
	s.DeadLetterTopic = r.String()
	s.Filter = mq.ReadFilter(r)
	if r.Err() != nil {
		return c
	}
	if err := s.Validate(""); err != nil {
		r.Fail("settings: %v", err)
	}
	if paused > 1 || ns >= 1e9 || c.Start > math.MaxInt64 {
		r.Fail("group flags %d, start %d, nanoseconds %d", paused, c.Start, ns)
	}
	return c
}
