package replica

import (
	"context"
	"errors"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Seek puts a group to another place, or says what that would change; done is called after commit. A time is searched
// beside the partition, by the keys of the store as a read does.
func (p *Partition) Seek(r *mqpb.SeekRequest, done func(*mqpb.SeekResult)) {
	out := &mqpb.SeekResult{Partition: mqpb.FromPartition(p.id)}
	fail := func(err error) {
		e := mqerr.Of(deliveryError(err))
		out.Code, out.Detail = uint32(e.Code), e.Detail
		done(out)
	}
	p.serve(fail, func(l *leadership) {
		j := l.journal()
		to := delivery.SeekTarget{Floor: j.first()}
		switch r.GetTo() {
		case "earliest":
		case "latest":
			to.Offset = j.open.End.Offset
		case "offset":
			if to.Offset = r.GetOffset(); to.Offset > j.open.End.Offset {
				fail(mqerr.New(mqerr.OffsetOutOfRange, "offset %d is beyond the end; the next one is %d", to.Offset, j.open.End.Offset))
				return
			}
		case "snapshot":
			to.Snapshot = r.GetSnapshot()
		case "time":
			p.beside(func(ctx context.Context) {
				at, err := p.offsetAt(ctx, &j, r.GetTime())
				if err != nil {
					fail(err)
					return
				}
				to.Offset = at
				p.serve(fail, func(l *leadership) { p.seek(l, r, to, out, fail, done) })
			})
			return
		default:
			fail(mqerr.New(mqerr.InvalidParameter, "a seek goes to earliest, latest, time, offset or snapshot, not to %.40q", r.GetTo()))
			return
		}
		p.seek(l, r, to, out, fail, done)
	})
}

func (p *Partition) seek(l *leadership, r *mqpb.SeekRequest, to delivery.SeekTarget, out *mqpb.SeekResult, fail func(error), done func(*mqpb.SeekResult)) {
	id := mq.GroupID(r.GetGroup())
	counts, err := l.machine.PlanSeek(id, to)
	if err == nil && !r.GetDryRun() {
		counts, err = l.machine.SeekGroup(p.env.Clock.Now(), id, to)
	}
	if err != nil {
		fail(err)
		return
	}
	out.From, out.To, out.Lag, out.Again, out.Skipped = counts.From, counts.To, counts.Lag, counts.Again, counts.Skipped
	out.InFlight, out.DeadAgain = uint64(counts.InFlight), uint64(counts.DeadAgain)
	if r.GetDryRun() {
		done(out)
		return
	}
	l.afterCommit(func(err error) {
		if err != nil {
			fail(err)
			return
		}
		done(out)
	})
}

// Snapshots makes, deletes or lists a group's snapshots here; done is called after commit.
func (p *Partition) Snapshots(r *mqpb.SnapshotsRequest, done func(*mqpb.PartitionSnapshots)) {
	out := &mqpb.PartitionSnapshots{Partition: mqpb.FromPartition(p.id)}
	fail := func(err error) {
		e := mqerr.Of(deliveryError(err))
		out.Code, out.Detail = uint32(e.Code), e.Detail
		done(out)
	}
	p.serve(fail, func(l *leadership) {
		id := mq.GroupID(r.GetGroup())
		if _, ok := l.machine.Figures(id); !ok {
			fail(delivery.ErrGroupNotFound)
			return
		}
		var err error
		switch r.GetAct() {
		case "create":
			err = l.machine.CreateSnapshot(r.GetMade(), id, r.GetName())
		case "delete":
			err = l.machine.DeleteSnapshot(p.env.Clock.Now(), id, r.GetName())
		case "list":
		default:
			err = mqerr.New(mqerr.InvalidParameter, "act must be create, delete or list, not %.40q", r.GetAct())
		}
		if err != nil {
			fail(err)
			return
		}
		for _, s := range l.machine.Snapshots(id) {
			out.Snapshots = append(out.Snapshots, &mqpb.Snapshot{Name: s.Name, Made: s.Made, Low: s.Low, Bytes: uint64(s.Bytes)})
		}
		if r.GetAct() == "list" {
			done(out)
			return
		}
		l.afterCommit(func(err error) {
			if err != nil {
				fail(err)
				return
			}
			done(out)
		})
	})
}

// snapshotError gives what a snapshot is refused with its row of the table.
func snapshotError(err error) (error, bool) {
	switch {
	case errors.Is(err, delivery.ErrSnapshotNotFound):
		return mqerr.New(mqerr.SnapshotNotFound, "the group has no such snapshot in the partition"), true
	case errors.Is(err, delivery.ErrSnapshotExists):
		return mqerr.New(mqerr.AlreadyExists, "the group has a snapshot of this name; delete it first"), true
	case errors.Is(err, delivery.ErrTooManySnapshots):
		return mqerr.New(mqerr.ValidationFailed, "a group has at most %d snapshots; delete one", delivery.MaxSnapshots), true
	case errors.Is(err, delivery.ErrSnapshotTooLarge):
		return mqerr.New(mqerr.ValidationFailed, "the partition has no room for this snapshot: too many messages are out or too many snapshots kept; settle some, or delete some"), true
	case errors.Is(err, delivery.ErrSeekTooLarge):
		return mqerr.New(mqerr.ValidationFailed, "the partition has no room for what this snapshot brings back one by one: settle what is out, in other groups too, or seek to an offset"), true
	}
	return nil, false
}
