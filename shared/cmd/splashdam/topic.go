package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mq"
)

type topicCommands struct {
	Create   topicCreate   `cmd:"" help:"Make a topic."`
	List     topicList     `cmd:"" help:"List topics."`
	Describe topicDescribe `cmd:"" help:"Show a topic with its partitions."`
	Update   topicUpdate   `cmd:"" help:"Change the settings that are named."`
	Delete   topicDelete   `cmd:"" help:"Delete a topic with its messages and groups."`
}

// topicSettings are the flags of create and update; what is not given is not sent.
type topicSettings struct {
	Partitions      *uint32       `help:"Number of partitions; can only grow."`
	MaxMessageBytes *int          `help:"Largest message."`
	Compression     *string       `enum:"none,s2,zstd" help:"How stored batches are compressed: none, s2 or zstd."`
	RetentionTime   *api.Duration `name:"retention" help:"How long messages stay (168h); 0s for no limit."`
	RetentionBytes  *int64        `help:"Bytes that the topic may hold; 0 for no limit."`
	KeepUnsettled   *bool         `negatable:"" help:"Keep what an active group has not settled."`
	RetentionShare  *float64      `help:"Share of a partition that goes by time within an hour, 0 to 1; 0: a tenth, 1: no limit."`
	Archive         *bool         `negatable:"" help:"Put what retention removes into the archive before."`
}

func (t *topicSettings) input() api.TopicInput {
	in := api.TopicInput{Partitions: t.Partitions, MaxMessageBytes: t.MaxMessageBytes, Compression: t.Compression, Archive: t.Archive}
	if t.RetentionTime != nil || t.RetentionBytes != nil || t.KeepUnsettled != nil || t.RetentionShare != nil {
		in.Retention = &api.RetentionInput{Time: t.RetentionTime, Bytes: t.RetentionBytes, KeepUnsettled: t.KeepUnsettled, MaxShare: t.RetentionShare}
	}
	return in
}

type topicCreate struct {
	Topic         string `arg:"" help:"Name."`
	topicSettings `embed:""`
	Replicas      *int `help:"Copies of each message."`
	AckQuorum     *int `help:"Copies that must be on disk before a publish is answered."`
}

func (t *topicCreate) Run(s *session) error {
	in := t.input()
	in.Replicas, in.AckQuorum = t.Replicas, t.AckQuorum
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.CreateTopic(ctx, t.Topic, in)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderTopic(&out, s.width, s.painter()) })
}

// errNothingNamed: an update without a setting is a slip, and showing the topic would hide it.
var errNothingNamed = wrongUsage("name at least one setting to change")

type topicUpdate struct {
	Topic         string `arg:"" help:"Name."`
	topicSettings `embed:""`
	DryRun        bool `help:"Say what would change and leave it."`
	Force         bool `help:"Add partitions although a group orders by key: its keys may move to another partition."`
}

func (t *topicUpdate) Run(s *session) error {
	in := t.input()
	if in == (api.TopicInput{}) {
		return errNothingNamed
	}
	update := s.client.UpdateTopic
	if t.Force {
		update = s.client.MoveKeys
	}
	return change(s, t.DryRun,
		func(ctx context.Context) (api.ConfigChange, error) {
			return s.client.PreviewTopic(ctx, t.Topic, in, t.Force)
		},
		func(ctx context.Context) (api.Topic, error) { return update(ctx, t.Topic, in) },
		func(out *api.Topic) string { return renderTopic(out, s.width, s.painter()) })
}

type topicDescribe struct {
	Topic string `arg:"" help:"Name."`
}

func (t *topicDescribe) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.Topic(ctx, t.Topic)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderTopic(&out, s.width, s.painter()) })
}

type topicList struct {
	Limit int `default:"1000" help:"Topics at most."`
}

func (t *topicList) Run(s *session) error {
	if err := goodLimit(t.Limit); err != nil {
		return err
	}
	ctx, cancel := s.call()
	defer cancel()
	all := api.TopicList{Topics: []api.TopicSummary{}}
	for page := (client.Page{}); ; {
		got, err := s.client.Topics(ctx, page)
		if err != nil {
			return err
		}
		all.Topics = append(all.Topics, got.Topics...)
		if len(all.Topics) >= t.Limit || got.NextCursor == "" {
			break
		}
		page.Cursor = got.NextCursor
	}
	all.Topics = all.Topics[:min(len(all.Topics), max(t.Limit, 0))]
	return s.show(all, func() string { return renderTopics(all.Topics, s.width, s.painter()) })
}

type topicDelete struct {
	Topic  string `arg:"" help:"Name."`
	DryRun bool   `help:"Say what would be removed and leave it."`
}

func (t *topicDelete) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.DeleteTopic(ctx, t.Topic, t.DryRun)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderDeletion(&out, s.width) })
}

func renderTopics(list []api.TopicSummary, width int, paint painter) string {
	if len(list) == 0 {
		return "no topics\n"
	}
	t := table{headers: []string{"TOPIC", "STATE", ">PARTS", ">MESSAGES", ">SIZE", ">IN/S", ">OUT/S"}}
	some := false
	for _, one := range list {
		t.rows = append(t.rows, []string{one.Name, one.State, strconv.Itoa(one.PartitionCount), count(one.Messages) + partial(one.Partial),
			size(one.Bytes), rate(one.PublishRate), rate(one.DeliverRate)})
		some = some || one.Partial
	}
	return t.render(width, paint) + partialNote(some)
}

// partial marks figures that some leaders did not answer for; partialNote explains the mark.
func partial(p bool) string {
	if p {
		return "+"
	}
	return ""
}

func partialNote(p bool) string {
	if p {
		return "+: at least; not every partition's leader has answered\n"
	}
	return ""
}

func renderTopic(t *api.Topic, width int, paint painter) string {
	set := &t.Settings
	rows := [][2]string{
		{"topic", t.Name}, {"state", paint(styleOf(t.State), t.State)}, {"created", stamp(t.Created)},
		{"messages", count(t.Messages) + partial(t.Partial)}, {"size", size(t.Bytes)},
		{"rates", rate(t.PublishRate) + " in/s, " + rate(t.DeliverRate) + " out/s"},
		{"replicas", fmt.Sprintf("%d, of which %d before an answer", set.Replicas, set.Quorum)},
		{"retention", retention(set.Retention.Time, set.Retention.Bytes, set.Retention.KeepUnsettled)},
		{"largest message", size(uint64(set.MaxMessageBytes))}, {"compression", set.Compression},
	}
	if t.Scheduled > 0 { // most topics have none
		rows = slices.Insert(rows, 5, [2]string{"scheduled", count(t.Scheduled) + partial(t.Partial)})
	}
	if set.Archive {
		rows = append(rows, [2]string{"archive", "before retention removes"})
	}
	parts := table{headers: []string{">PART", "STATE", "LEADER", "REPLICAS", ">FIRST", ">NEXT", ">SIZE"}}
	away, damage, why := false, "", reasons{}
	for _, p := range t.Partitions {
		figures := []string{"-", "-", "-"} // nobody knows
		if f := p.PartitionFigures; f != nil {
			figures = []string{count(f.FirstOffset), count(f.NextOffset), size(f.Bytes)}
			damage += unreadable(p.Partition, f.Unreadable, paint)
		}
		parts.rows = append(parts.rows, append([]string{strconv.FormatUint(uint64(p.Partition), 10), p.State, orDash(p.Leader),
			replicas(p.Replicas)}, figures...))
		why.add(t.Name, p.Partition, p.Error)
		away = away || slices.ContainsFunc(p.Replicas, func(r api.Replica) bool { return !r.Alive })
	}
	note := partialNote(t.Partial)
	if away {
		note += "!: away\n"
	}
	return pairs(rows, width) + "\n" + parts.render(width, paint) + note + damage + why.render(width, paint)
}

// unreadable tells which offsets of a partition can't all be read, a line for each range.
func unreadable(partition uint32, ranges []api.OffsetRange, paint painter) (out string) {
	for _, r := range ranges {
		out += paint(styleWarn, fmt.Sprintf("partition %d: not all of %d to %d can be read", partition, r.From, r.To-1)) + "\n"
	}
	return out
}

// replicas names the nodes; one that is away has a mark behind it.
func replicas(list []api.Replica) string {
	names := make([]string, len(list))
	for i, r := range list {
		names[i] = r.Node
		if !r.Alive {
			names[i] += "!"
		}
	}
	return orDash(strings.Join(names, " "))
}

func retention(time api.Duration, bytes int64, keep bool) string {
	out := time.String()
	if time == 0 {
		out = "no limit by time"
	}
	if bytes > 0 {
		out += ", " + size(uint64(bytes))
	}
	if keep {
		out += ", what is not settled stays"
	}
	return out
}

// pairs lays names and values out in two columns; a value that does not fit goes on below itself.
func pairs(rows [][2]string, width int) string {
	longest := 0
	for _, r := range rows {
		longest = max(longest, len(r[0]))
	}
	var b strings.Builder
	for _, r := range rows {
		text := r[1]
		if width > 0 {
			indent := longest + len(gap)
			text = strings.ReplaceAll(wrap(text, max(width-indent, 20)), "\n", "\n"+strings.Repeat(" ", indent))
		}
		fmt.Fprintf(&b, "%-*s%s%s\n", longest, r[0], gap, text)
	}
	return b.String()
}

func renderDeletion(d *api.Deletion, width int) string {
	what := "topic " + d.Topic
	if d.Group != "" {
		what = "group " + d.Group + " of topic " + d.Topic
		if webhook, ok := mq.GroupWebhook(d.Group); ok {
			what = "webhook " + webhook + " of topic " + d.Topic
		}
	}
	verb := "deleted"
	if d.DryRun {
		verb = "would delete"
	}
	rows := [][2]string{{verb, what}}
	if d.Group == "" {
		rows = append(rows, [2]string{"messages", count(d.Messages) + partial(d.Partial)})
	} else { // its messages stay
		rows = append(rows, [2]string{"lag", count(d.Messages) + partial(d.Partial)})
	}
	if d.Bytes > 0 {
		rows = append(rows, [2]string{"size", size(d.Bytes)})
	}
	if len(d.Groups) > 0 {
		rows = append(rows, [2]string{"groups", strings.Join(d.Groups, " ")})
	}
	if d.InFlight > 0 {
		rows = append(rows, [2]string{"in flight", count(d.InFlight)})
	}
	if d.Dead > 0 {
		rows = append(rows, [2]string{"dead", count(d.Dead)})
	}
	return pairs(rows, width) + partialNote(d.Partial)
}
