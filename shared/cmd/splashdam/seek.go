package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

type seekCmd struct {
	groupName `embed:""`
	To        string  `arg:"" optional:"" help:"earliest, latest, a time (RFC 3339), or how long ago: 2h."`
	Snapshot  string  `help:"Go to a snapshot of the group."`
	Partition *uint32 `help:"Only this partition, to --offset."`
	Offset    *uint64 `help:"Offset in --partition."`
	DryRun    bool    `help:"Say what would change and leave it."`
}

func (k *seekCmd) target() (api.SeekTarget, error) {
	given := 0
	for _, is := range []bool{k.To != "", k.Snapshot != "", k.Offset != nil} {
		if is {
			given++
		}
	}
	switch {
	case given != 1 || (k.Partition != nil) != (k.Offset != nil):
		return api.SeekTarget{}, wrongUsage("give one place: earliest, latest, a time, --snapshot NAME, or --partition N --offset M")
	case k.Snapshot != "":
		return api.SeekTarget{Snapshot: k.Snapshot}, nil
	case k.Offset != nil:
		return api.SeekTarget{Offset: *k.Offset, Partition: k.Partition}, nil
	case k.To == "earliest" || k.To == "latest":
		return api.SeekTarget{At: k.To}, nil
	}
	at, err := parsePast(k.To, time.Now())
	if err != nil {
		return api.SeekTarget{}, wrongUsage("a place is earliest, latest, a time like 2026-01-31T12:00:00Z, or 2h for how long ago; not %q", k.To)
	}
	return api.SeekTarget{Time: at}, nil
}

func (k *seekCmd) Run(s *session) error {
	to, err := k.target()
	if err != nil {
		return err
	}
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.Seek(ctx, k.Topic, k.Group, to, k.DryRun)
	if err != nil {
		return err
	}
	return s.showSeek(&out)
}

// showSeek shows what a seek did, and says which partitions failed.
func (s *session) showSeek(out *api.SeekResult) error {
	if err := s.show(out, func() string { return renderSeek(out, s.width, s.painter()) }); err != nil {
		return err
	}
	var failed error
	for _, p := range out.Partitions {
		if p.Error != nil {
			failed = cmpErr(failed, &client.Error{Code: p.Error.Code, Detail: p.Error.Detail, Retryable: p.Error.Retryable})
			fmt.Fprintf(s.err, "partition %d stays where it was: %s: %s\n", p.Partition, p.Error.Code, p.Error.Detail)
		}
	}
	return partly(failed)
}

func renderSeek(r *api.SeekResult, width int, paint painter) string {
	t := table{headers: []string{">PART", ">FROM", ">TO", ">LAG", ">AGAIN", ">SKIPPED", ">IN FLIGHT", ">DEAD AGAIN"}}
	for _, p := range r.Partitions {
		if p.Error == nil {
			t.rows = append(t.rows, []string{strconv.FormatUint(uint64(p.Partition), 10), count(p.From), count(p.To), count(p.Lag),
				count(p.Again), count(p.Skipped), count(p.InFlight), count(p.DeadAgain)})
		}
	}
	did := "the group has moved"
	if r.DryRun {
		did = "the group would move"
	}
	return fmt.Sprintf("%s: %d to deliver, %d of them again; %d skipped, %d leases end\n\n", did, r.Lag, r.Again, r.Skipped, r.InFlight) +
		t.render(width, paint)
}

type snapshotCommands struct {
	Create snapshotCreate `cmd:"" help:"Keep what the group has settled under a name."`
	List   snapshotList   `cmd:"" help:"List the group's snapshots."`
	Delete snapshotDelete `cmd:"" help:"Forget a snapshot."`
}

type snapshotName struct {
	groupName `embed:""`
	Name      string `arg:"" help:"Name of the snapshot."`
}

type snapshotCreate struct {
	snapshotName `embed:""`
}

func (c *snapshotCreate) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.CreateSnapshot(ctx, c.Topic, c.Group, c.Name)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderSnapshots([]api.Snapshot{out}, s.width, s.painter()) })
}

type snapshotList struct {
	groupName `embed:""`
}

func (l *snapshotList) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.Snapshots(ctx, l.Topic, l.Group)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderSnapshots(out.Snapshots, s.width, s.painter()) + partialNote(out.Partial) })
}

type snapshotDelete struct {
	snapshotName `embed:""`
	DryRun       bool `help:"Say what would be forgotten and leave it."`
}

func (d *snapshotDelete) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.DeleteSnapshot(ctx, d.Topic, d.Group, d.Name, d.DryRun)
	if err != nil {
		return err
	}
	return s.show(out, func() string {
		if d.DryRun {
			return "would delete:\n\n" + renderSnapshots([]api.Snapshot{out}, s.width, s.painter())
		}
		return fmt.Sprintf("deleted  snapshot %s of group %s of topic %s\n", d.Name, d.Group, d.Topic)
	})
}

func renderSnapshots(list []api.Snapshot, width int, paint painter) string {
	if len(list) == 0 {
		return "no snapshots\n"
	}
	t := table{headers: []string{"SNAPSHOT", "CREATED (UTC)", ">SIZE", "PARTITION/OFFSET"}}
	for _, s := range list {
		var places []string
		for _, p := range s.Partitions {
			places = append(places, place(p.Partition, p.Offset))
		}
		t.rows = append(t.rows, []string{s.Name, stamp(s.Created), size(s.Bytes), strings.Join(places, " ")})
	}
	return t.render(width, paint)
}
