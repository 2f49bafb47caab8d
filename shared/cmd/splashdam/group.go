package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mq"
)

type groupCommands struct {
	List     groupList        `cmd:"" help:"List the groups of a topic."`
	Describe groupDescribe    `cmd:"" help:"Show a group with its lag."`
	Create   groupCreate      `cmd:"" help:"Make a group."`
	Update   groupUpdate      `cmd:"" help:"Change the settings that are named."`
	Pause    groupPause       `cmd:"" help:"Stop deliveries."`
	Resume   groupResume      `cmd:"" help:"Go on after a pause."`
	Delete   groupDelete      `cmd:"" help:"Delete a group with its position."`
	Messages groupMessages    `cmd:"" help:"List what a group holds."`
	Snapshot snapshotCommands `cmd:"" help:"Named copies of what a group has settled."`
	Members  groupMembers     `cmd:"" help:"List the members of an assigned group."`
}

// groupName is the two arguments that name a group.
type groupName struct {
	Topic string `arg:"" help:"Topic."`
	Group string `arg:"" help:"Group."`
}

// pausedGroup is what pause and resume show.
type pausedGroup struct {
	Topic  string `json:"topic"`
	Group  string `json:"group"`
	Paused bool   `json:"paused"`
}

func (g *groupName) showPaused(s *session, paused bool) error {
	verb := "resumed"
	if paused {
		verb = "paused"
	}
	return s.show(pausedGroup{g.Topic, g.Group, paused}, func() string {
		return fmt.Sprintf("%s  group %s of topic %s\n", verb, g.Group, g.Topic)
	})
}

type groupSettings struct {
	Mode        *string           `enum:"shared,assigned" help:"Who receives from a partition: ${enum}."`
	Lease       *api.Duration     `help:"How long a consumer has for a message (30s)."`
	MaxAttempts *int              `help:"Deliveries before a message is dead; 0 for no limit."`
	MaxInFlight *int              `help:"Messages out at once, per partition."`
	Initial     *api.Duration     `name:"backoff-initial" help:"Wait after the first failed attempt."`
	Multiplier  *float64          `name:"backoff-multiplier" help:"Growth of the wait."`
	Max         *api.Duration     `name:"backoff-max" help:"Longest wait."`
	Jitter      *float64          `name:"backoff-jitter" help:"Spread of the wait, 0 to 1."`
	DeadCount   *int              `name:"dead-max-count" help:"Dead letters kept in each partition; 0 for no limit."`
	DeadTopic   *string           `name:"dead-letter-topic" help:"Publish dead letters to this topic, too; empty for nowhere."`
	DeadAge     *api.Duration     `name:"dead-max-age" help:"How long dead letters are kept; 0s for no limit."`
	DeadBytes   *int64            `name:"dead-max-bytes" help:"Bytes of dead letters kept in each partition; 0 for no limit."`
	Ordering    *string           `enum:"none,key" help:"Order of deliveries: none, or key for one message of a key at a time, in order."`
	Lanes       string            `help:"How deliveries are spread over the lanes: strict, weighted, or weights like critical=16,low=1."`
	Filter      map[string]string `mapsep:"none" help:"Only messages with this header, NAME=VALUE, NAME=VALUE,VALUE or NAME=PREFIX*; all that are given must hold."`
	NoFilter    bool              `help:"Every message."`
}

func (g *groupSettings) input() (in api.GroupInput, err error) {
	in = api.GroupInput{Ordering: g.Ordering, Mode: g.Mode, Lease: g.Lease, MaxAttempts: g.MaxAttempts, MaxInFlight: g.MaxInFlight}
	if g.Initial != nil || g.Multiplier != nil || g.Max != nil || g.Jitter != nil {
		in.Backoff = &api.BackoffInput{Initial: g.Initial, Multiplier: g.Multiplier, Max: g.Max, Jitter: g.Jitter}
	}
	if len(g.Filter) > 0 || g.NoFilter {
		in.Filter = filterOf(g.Filter)
	}
	in.DeadLetterTopic = g.DeadTopic
	if g.DeadCount != nil || g.DeadAge != nil || g.DeadBytes != nil {
		in.Dead = &api.DeadLimitsInput{MaxCount: g.DeadCount, MaxAge: g.DeadAge, MaxBytes: g.DeadBytes}
	}
	if in.Lanes, err = lanesInput(g.Lanes); err != nil {
		return in, err
	}
	return in, nil
}

// lanesInput reads --lanes: a mode, or weights by lane.
func lanesInput(text string) (*api.LanesInput, error) {
	switch text {
	case "":
		return nil, nil
	case mq.LanesStrict, mq.LanesWeighted:
		return &api.LanesInput{Mode: text}, nil
	}
	weights := map[string]int{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		weight, err := strconv.Atoi(value)
		if _, ok := mq.ParseLane(name); err != nil || !ok {
			return nil, wrongUsage("--lanes is strict, weighted, or weights like critical=16,low=1; not %q", text)
		}
		weights[name] = weight
	}
	return &api.LanesInput{Mode: mq.LanesWeighted, Weights: weights}, nil
}

type groupCreate struct {
	groupName     `embed:""`
	groupSettings `embed:""`
	Start         string `help:"Where it begins: earliest, latest, a time (RFC 3339), or how long ago: 2h."`
}

func (g *groupCreate) Run(s *session) error {
	in, err := g.input()
	if err != nil {
		return err
	}
	if in.Start, err = startInput(g.Start); err != nil {
		return err
	}
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.CreateGroup(ctx, g.Topic, g.Group, in)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderGroup(&out, s.width, s.painter()) })
}

type groupUpdate struct {
	groupName     `embed:""`
	groupSettings `embed:""`
	DryRun        bool `help:"Say what would change and leave it."`
}

func (g *groupUpdate) Run(s *session) error {
	in, err := g.input()
	if err != nil {
		return err
	}
	if in == (api.GroupInput{}) {
		return errNothingNamed
	}
	return change(s, g.DryRun,
		func(ctx context.Context) (api.ConfigChange, error) {
			return s.client.PreviewGroup(ctx, g.Topic, g.Group, in)
		},
		func(ctx context.Context) (api.Group, error) { return s.client.UpdateGroup(ctx, g.Topic, g.Group, in) },
		func(out *api.Group) string { return renderGroup(out, s.width, s.painter()) })
}

type groupDescribe struct {
	groupName `embed:""`
}

func (g *groupDescribe) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.Group(ctx, g.Topic, g.Group)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderGroup(&out, s.width, s.painter()) })
}

type groupList struct {
	Topic string `arg:"" help:"Topic."`
	Limit int    `default:"1000" help:"Groups at most."`
}

func (g *groupList) Run(s *session) error {
	if err := goodLimit(g.Limit); err != nil {
		return err
	}
	ctx, cancel := s.call()
	defer cancel()
	all := api.GroupList{Groups: []api.GroupSummary{}}
	for page := (client.Page{}); ; {
		got, err := s.client.Groups(ctx, g.Topic, page)
		if err != nil {
			return err
		}
		all.Groups = append(all.Groups, got.Groups...)
		if len(all.Groups) >= g.Limit || got.NextCursor == "" {
			break
		}
		page.Cursor = got.NextCursor
	}
	all.Groups = all.Groups[:min(len(all.Groups), max(g.Limit, 0))]
	return s.show(all, func() string { return renderGroups(all.Groups, s.width, s.painter()) })
}

type groupPause struct {
	groupName `embed:""`
}

func (g *groupPause) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	if err := s.client.PauseGroup(ctx, g.Topic, g.Group); err != nil {
		return err
	}
	return g.showPaused(s, true)
}

type groupResume struct {
	groupName `embed:""`
}

func (g *groupResume) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	if err := s.client.ResumeGroup(ctx, g.Topic, g.Group); err != nil {
		return err
	}
	return g.showPaused(s, false)
}

type groupDelete struct {
	groupName `embed:""`
	DryRun    bool `help:"Say what would be removed and leave it."`
}

func (g *groupDelete) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.DeleteGroup(ctx, g.Topic, g.Group, g.DryRun)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderDeletion(&out, s.width) })
}

type groupMessages struct {
	groupName `embed:""`
	State     string `enum:"ready,leased,waiting,parked,dead" default:"leased" help:"Which: ${enum}."`
	Limit     int    `short:"n" default:"100" help:"Messages at most."`

	Partition *uint32 `help:"Those of this partition only."`
}

func (g *groupMessages) Run(s *session) error {
	if err := goodLimit(g.Limit); err != nil {
		return err
	}
	none := "no messages are " + g.State + "; --state names another state\n"
	if g.Partition != nil {
		none = fmt.Sprintf("no messages of partition %d are %s; --state names another state\n", *g.Partition, g.State)
	}
	return held(s, client.Page{Partition: g.Partition}, g.Limit, heldForm{most: 1000, none: none, render: renderHeld}, func(p client.Page) (api.HeldList, error) {
		ctx, cancel := s.call()
		defer cancel()
		return s.client.GroupMessages(ctx, g.Topic, g.Group, g.State, p)
	})
}

// held lists page after page up to limit, beginning with the first one.
func held(s *session, page client.Page, limit int, form heldForm, next func(client.Page) (api.HeldList, error)) error {
	all := api.HeldList{Messages: []api.HeldMessage{}}
	for len(all.Messages) < limit {
		page.Limit = min(limit-len(all.Messages), form.most)
		got, err := next(page)
		if err != nil {
			return err
		}
		all.Messages = append(all.Messages, got.Messages...)
		all.NextCursor = got.NextCursor
		if page.Cursor = got.NextCursor; page.Cursor == "" {
			break
		}
	}
	return s.show(all, func() string {
		if len(all.Messages) == 0 {
			return form.none
		}
		return form.render(all.Messages, s.width, s.painter())
	})
}

// heldForm is how a listing of what a group holds is asked for and shown.
type heldForm struct {
	most   int    // messages of a page
	none   string // without any
	render func(list []api.HeldMessage, width int, paint painter) string
}

func renderGroups(list []api.GroupSummary, width int, paint painter) string {
	if len(list) == 0 {
		return "no groups\n"
	}
	t := table{headers: []string{"GROUP", "STATE", ">LAG", ">READY", ">IN FLIGHT", ">WAITING", ">DEAD", ">OLDEST"}}
	some := false
	for _, g := range list {
		t.rows = append(t.rows, []string{g.Name, g.State, count(g.Lag) + partial(g.Partial), count(g.Ready), count(g.InFlight),
			count(g.Waiting), count(g.Dead), age(g.OldestAge)})
		some = some || g.Partial
	}
	return t.render(width, paint) + partialNote(some)
}

func age(d api.Duration) string {
	if d == 0 {
		return "-"
	}
	return span(time.Duration(d))
}

func renderGroup(g *api.Group, width int, paint painter) string {
	set, b := &g.Settings, &g.Settings.Backoff
	attempts := strconv.Itoa(set.MaxAttempts)
	if set.MaxAttempts == 0 {
		attempts = "no limit"
	}
	rows := [][2]string{
		{"group", g.Name + " of topic " + g.Topic}, {"state", paint(styleOf(g.State), g.State)},
		{"lag", fmt.Sprintf("%d%s (%d ready, %d in flight, %d waiting)", g.Lag, partial(g.Partial), g.Ready, g.InFlight, g.Waiting)},
		{"dead", count(g.Dead) + limitsText(set.Dead) + exportText(g)}, {"oldest", age(g.OldestAge)},
		{"lease", set.Lease.String()}, {"max attempts", attempts},
		{"backoff", fmt.Sprintf("%s x %g, at most %s, spread %g", b.Initial, b.Multiplier, b.Max, b.Jitter)},
		{"max in flight", strconv.Itoa(set.MaxInFlight) + " per partition"},
	}
	if len(set.Filter) > 0 {
		rows = append(rows, [2]string{"filter", filterText(set.Filter)})
	}
	rows = slices.Insert(rows, 5, fatesOf(g)...)
	if set.Mode == mq.ModeAssigned {
		rows = append(rows, [2]string{"mode", "assigned: each partition belongs to a member"})
	}
	rows = append(rows, laneRows(g)...)
	t := table{headers: []string{">PART", ">CURSOR", ">NEXT", ">LAG", ">IN FLIGHT", ">WAITING", ">DEAD", ">OLDEST"}}
	damage, why := "", reasons{}
	for _, p := range g.Partitions {
		figures := []string{"-", "-", "-", "-", "-", "-", "-"} // nobody knows
		if f := p.GroupPartitionFigures; f != nil {
			figures = []string{count(f.Cursor), count(f.NextOffset), count(f.Lag), count(f.InFlight), count(f.Waiting), count(f.Dead), age(f.OldestAge)}
			damage += unreadable(p.Partition, f.Unreadable, paint)
		}
		why.add(g.Topic, p.Partition, p.Error)
		t.rows = append(t.rows, append([]string{strconv.FormatUint(uint64(p.Partition), 10)}, figures...))
	}
	return pairs(rows, width) + "\n" + t.render(width, paint) + partialNote(g.Partial) + damage + why.render(width, paint)
}

// laneRows tell the order of deliveries: by key, how the lanes share, and what each has.
func laneRows(g *api.Group) (rows [][2]string) {
	if g.Settings.Ordering == mq.OrderingKey {
		rows = append(rows, [2]string{"ordering", fmt.Sprintf("by key, %d parked behind others", g.Parked)})
	}
	set := g.Settings.Lanes
	if set != mq.DefaultLaneSettings() || len(g.Lanes) > 0 {
		text := "strict, the most urgent first"
		if !set.Strict() {
			text = "weighted"
			for l := range mq.Lane(mq.Lanes) {
				text += " " + strconv.Itoa(set.Weight(l))
			}
		}
		rows = append(rows, [2]string{"lanes", text})
	}
	for l := range mq.Lane(mq.Lanes) {
		if f, ok := g.Lanes[l.String()]; ok {
			rows = append(rows, [2]string{"  " + l.String(), fmt.Sprintf("lag %d (%d in flight, %d waiting), %d dead", f.Lag, f.InFlight, f.Waiting, f.Dead)})
		}
	}
	return rows
}

func renderHeld(list []api.HeldMessage, width int, paint painter) string {
	const second = "01-02 15:04:05"
	dead := list[0].State == "dead" // all are in one state
	t := table{headers: []string{">PART/OFFSET", "ID", "STATE", ">TRY", "UNTIL (UTC)", "BY OR WHY"}}
	if dead { // why is what is looked for: the deliveries before it are one time span, unless there is room
		t.headers = []string{">PART/OFFSET", "ID", ">TRY", "DIED (UTC)", ">AFTER", "WHY"}
		if width == 0 {
			t.headers = []string{">PART/OFFSET", "ID", ">TRY", "FIRST (UTC)", "LAST (UTC)", "DIED (UTC)", "WHY"}
		}
	}
	clock := func(at time.Time, layout string) string {
		if at.IsZero() {
			return "-"
		}
		return at.UTC().Format(layout)
	}
	for _, m := range list {
		why := m.Reason
		if why == "" {
			why = m.Consumer
		}
		if m.Behind != nil {
			why = "behind " + place(m.Partition, *m.Behind)
		}
		if dead {
			row := []string{place(m.Partition, m.Offset), m.ID, strconv.FormatUint(uint64(m.Attempt), 10)}
			switch {
			case width == 0:
				row = append(row, clock(m.FirstDelivery, second), clock(m.LastDelivery, second), clock(m.Until, second))
			case m.FirstDelivery.IsZero() || m.Until.IsZero():
				row = append(row, clock(m.Until, second), "-")
			default:
				row = append(row, clock(m.Until, second), span(m.Until.Sub(m.FirstDelivery)))
			}
			t.rows = append(t.rows, append(row, orDash(oneLine(why))))
			continue
		}
		t.rows = append(t.rows, []string{place(m.Partition, m.Offset), m.ID, m.State, strconv.FormatUint(uint64(m.Attempt), 10),
			clock(m.Until, "01-02 15:04:05.000"), orDash(oneLine(why))})
	}
	return t.render(width, paint)
}

func place(partition uint32, offset uint64) string {
	return strconv.FormatUint(uint64(partition), 10) + "/" + strconv.FormatUint(offset, 10)
}
