package delivery

import (
	"fmt"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// The states of an explanation that are no State: they say more than the machine keeps, or that it keeps nothing.
const (
	ExplainScheduled   = "scheduled"    // not due
	ExplainParked      = "parked"       // it waits behind another one of its key
	ExplainStarting    = "starting"     // the partition does not know the group yet
	ExplainBeforeStart = "before_start" // the group begins after it
	ExplainFiltered    = "filtered"     // not wanted by the group's filter
	ExplainExpired     = "expired"      // past its TTL
	ExplainDropped     = "dropped"      // removed by retention
	ExplainDeadRemoved = "dead_removed" // a dead letter that was removed
	ExplainSkipped     = "skipped"      // a seek passed over it
	ExplainSettled     = "settled"      // the journal no longer says how
	ExplainLost        = "lost"         // recorded as lost
)

// askedLately is how long ago a consumer must have asked so that nobody is told that none does, in nanoseconds.
const askedLately = int64(10 * time.Second)

// Explanation is why a message is not delivered to a group now.
type Explanation struct {
	State   string // of State or of those above
	Because string // a sentence without a period
	// Until is the end of a lease or a wait, Since when it was settled or died, in Unix nanoseconds; 0 for none.
	Until, Since int64
	Attempt      uint32 // the last one, 0 for none
	Consumer     string // whose the last one is or was
	Reason       string // why it failed
	// Ahead are the ready messages that go before a ready one, by lane. Between lanes that share by weight it is what
	// goes before it as long as nothing new comes.
	Ahead [mq.Lanes]uint64
	// Behind is the offset of the message of its key that a parked one waits for.
	Behind uint64
}

// Question asks why a message is not delivered to a group.
type Question struct {
	Group  mq.GroupID
	Offset uint64 // below Committed
	Now    int64
	Asked  int64 // since when no consumer of the group has asked this leader for messages
}

// Explain says why a committed message is not delivered to a group now; false for an unknown group. Of a message that is
// settled it only says so (StateAcked): ExplainEvents tells from the journal how.
func (m *Machine) Explain(q Question) (Explanation, bool) {
	g := m.groups[q.Group]
	if g == nil {
		return Explanation{}, false
	}
	if m.lanes.lost(q.Offset) {
		return Explanation{State: ExplainLost, Because: "it is lost with the data that held it"}, true
	}
	if q.Offset < g.Start {
		return Explanation{State: ExplainBeforeStart, Because: fmt.Sprintf("the group starts after it, at offset %d", g.Start)}, true
	}
	h := g.held(q.Offset)
	e := Explanation{State: h.State.String(), Attempt: h.Attempt, Consumer: h.Consumer, Reason: h.Reason}
	switch h.State {
	case StateReady:
		g.explainReady(&e, h, q)
	case StateLeased:
		e.Until, e.Reason = h.Until, ""
		e.Because = fmt.Sprintf("%s has it until %s (attempt %d)", nameOr(h.Consumer, "a consumer"), clock(h.Until), h.Attempt)
	case StateWaiting:
		e.Until = h.Until
		e.Because = "it waits until " + clock(h.Until) + because(h.Reason)
		if h.Attempt > 0 {
			e.Because = fmt.Sprintf("attempt %d is not before %s; attempt %d failed%s", h.Attempt+1, clock(h.Until), h.Attempt, because(h.Reason))
		}
	case StateDead:
		e.Since = h.Until
		e.Because = "it is a dead letter since " + clock(h.Until) + attempts(h.Attempt) + because(h.Reason)
	case StateAcked:
		e.Because = "it is settled"
	}
	return e, true
}

// ExplainDue is the explanation of a scheduled message.
func ExplainDue(now, due int64) Explanation {
	e := Explanation{State: ExplainScheduled, Until: due, Because: "it is not due until " + clock(due)}
	if due <= now {
		e.Because = "it was due at " + clock(due) + " and is about to be released"
	}
	return e
}

// explainReady says what keeps a ready message: the first thing that would have to change, and what goes before it.
func (g *group) explainReady(e *Explanation, h HeldMessage, q Question) {
	parked := g.parkedFrom(0)
	for i := range parked {
		if p := &parked[i]; p.Offset == h.Offset {
			e.State, e.Behind = ExplainParked, p.Behind
			e.Because = fmt.Sprintf("an earlier message of its key, at offset %d, is %s", p.Behind, g.held(p.Behind).State)
			return
		}
	}
	e.Ahead = g.ahead(h, parked)
	fresh := g.out[h.Offset] == nil
	room, why := g.m.limit(g, MaxReceive)
	switch {
	case why == WhyPaused:
		e.Because = "the group is paused"
	case fresh && g.m.freshRoom(g) == 0 && g.seenCount() > 0:
		e.Because = "the state of the partition's groups is full, and this one has its share: settle what is out, remove or redrive dead letters"
	case room == 0:
		e.Because = fmt.Sprintf("max_in_flight is reached: %s leased", countOf(g.count[StateLeased]))
	case g.laneFull(h.Lane):
		e.Because = fmt.Sprintf("lane %s has its share of max_in_flight: %s leased", h.Lane, countOf(g.inLane[h.Lane][StateLeased]))
	case q.Now-q.Asked > askedLately:
		e.Because = "no consumer has asked for messages since " + clock(q.Asked)
	case fresh && h.Offset >= g.limit():
		e.Because = "the group's filter has not looked at it yet"
	case g.m.Unlooked(q.Group, h.Offset):
		e.Because = fmt.Sprintf("%d messages before it wait behind others of their keys, as many as may", g.keyed.parked())
	}
	first := goFirst(&e.Ahead)
	switch {
	case e.Because == "" && first == "":
		e.Because = "it is next: it goes to the next consumer that asks"
	case e.Because == "":
		e.Because = first
	case first != "":
		e.Because += "; " + first
	}
}

// goFirst says how many messages are ahead, nothing if none is.
func goFirst(ahead *[mq.Lanes]uint64) string {
	var sum uint64
	var parts []string
	for l, n := range ahead {
		if n > 0 {
			sum += n
			parts = append(parts, fmt.Sprintf("%d %s", n, mq.Lane(l)))
		}
	}
	switch {
	case sum == 0:
		return ""
	case sum == 1:
		return "1 message goes first (" + parts[0][2:] + ")"
	case len(parts) == 1:
		return fmt.Sprintf("%d messages go first (%s)", sum, parts[0][strings.IndexByte(parts[0], ' ')+1:])
	}
	return fmt.Sprintf("%d messages go first (%s)", sum, strings.Join(parts, ", "))
}

// ahead is how many ready messages go before a ready one. In its lane: those with lower offsets. Of the lanes above it,
// if they are strict, all; by weight, what they give while its lane gives those before it and itself. What is parked is
// not ready.
func (g *group) ahead(h HeldMessage, parked []HeldMessage) (n [mq.Lanes]uint64) {
	var waits [mq.Lanes]uint64
	for i := range parked {
		if p := &parked[i]; p.Lane != h.Lane || p.Offset < h.Offset {
			waits[p.Lane]++
		}
	}
	n[h.Lane] = g.freshBelow(h.Lane, h.Offset)
	for off, x := range g.out {
		if x.state == StateReady && x.lane == h.Lane && off < h.Offset {
			n[h.Lane]++
		}
	}
	n[h.Lane] -= min(n[h.Lane], waits[h.Lane])
	weights := &g.Settings.Lanes
	for l := range mq.Lane(mq.Lanes) {
		all := g.left[l] + uint64(g.inLane[l][StateReady])
		all -= min(all, waits[l])
		switch {
		case l == h.Lane || all == 0:
		case !weights.Strict():
			n[l] = min(all, (n[h.Lane]+1)*uint64(weights.Weight(l))/uint64(weights.Weight(h.Lane)))
		case l < h.Lane:
			n[l] = all
		}
	}
	return n
}

// laneFull says whether a lane may lease nothing more while others compete with it for max_in_flight.
func (g *group) laneFull(l mq.Lane) bool {
	if g.Settings.Lanes.Strict() || !g.m.lanes.used && g.special() == 0 {
		return false
	}
	have := g.m.available(g)
	if have[l] == 0 {
		return false
	}
	weight := g.weights(&have)
	g.capInFlight(&have, &weight)
	return have[l] == 0
}

// ExplainEvents says how a message was settled, by what the journal says of it in one group, in order.
func ExplainEvents(events []Event) Explanation {
	var how, last Event // what settled it, and its last delivery
	settled := false    // by how; a seek only may have
	for _, ev := range events {
		state, _ := explainEvent(ev)
		switch {
		case ev.Type == EventDelivered || ev.Type == EventRedelivered:
			last, how, settled = ev, Event{}, false
		case ev.Type == EventRedriven:
			how, settled = Event{}, false
		case ev.Type == EventSeek && how.Type != "" && how.Type != EventSeek:
			settled = false // it may be open again, then the next event says how that ended
		case state != "" && !settled:
			how, settled = ev, ev.Type != EventSeek
		}
	}
	state, text := explainEvent(how)
	if state == "" {
		return Explanation{State: ExplainSettled, Because: "it is settled; the log no longer says how"}
	}
	e := Explanation{State: state, Since: how.At, Attempt: max(how.Attempt, last.Attempt), Consumer: last.Consumer, Reason: how.Reason}
	e.Because = strings.ReplaceAll(text, "$at", clock(how.At))
	if how.Type == EventAcknowledged {
		e.Because, e.Reason = nameOr(last.Consumer, "a consumer")+e.Because, ""
	}
	if how.Type == EventDeadRemoved || how.Type == EventSeek {
		e.Because += because(how.Reason)
	}
	return e
}

// explainEvent is what an event makes of a message if it settles it: the state, and why; "" if it does not.
func explainEvent(ev Event) (state, text string) {
	switch ev.Type {
	case EventAcknowledged:
		return StateAcked.String(), " acknowledged it at $at"
	case EventFiltered:
		return ExplainFiltered, "the group's filter does not want it; looked at $at"
	case EventDeadRemoved:
		return ExplainDeadRemoved, "it was a dead letter and was removed at $at"
	case EventSeek:
		return ExplainSkipped, "a seek passed over it at $at"
	case EventExpired:
		switch ev.Reason {
		case ReasonLapsed:
			return ExplainExpired, "its TTL was over at $at, when its turn came"
		case reasonDropped:
			return ExplainDropped, "retention removed it at $at, before it was settled"
		}
	}
	return "", ""
}

func clock(at int64) string { return time.Unix(0, at).UTC().Format("2006-01-02 15:04:05 UTC") }

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func attempts(n uint32) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", after 1 attempt"
	}
	return fmt.Sprintf(", after %d attempts", n)
}

func nameOr(name, other string) string {
	if name == "" {
		return other
	}
	return name
}

func countOf(messages int) string {
	if messages == 1 {
		return "1 message is"
	}
	return fmt.Sprintf("%d messages are", messages)
}
