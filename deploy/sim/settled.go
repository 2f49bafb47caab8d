package sim

import (
	"maps"
	"slices"

	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// expired says of a message that was given out whether its time was over, by the true clock; and of none that lives on.
func (c *checker) expired(g mq.GroupID, m lognode.Delivered, decided int64) {
	ttl := c.traits[string(m.Value)].ttl
	if over := m.Stamp - epoch + ttl; ttl > 0 && c.s.trueClocks() && decided > over+slack {
		c.s.fail("offset %d of partition %d was given out in group %d at %.3fs, and its time was over at %.3fs", m.Receipt.Offset,
			m.Receipt.Partition.Number, g, float64(decided)/1e9, float64(over)/1e9)
	}
}

// mayExpire says whether a message may end without having been seen.
func (c *checker) mayExpire(value string) bool {
	ttl := c.traits[value].ttl
	return ttl > 0 && ttl < longLife
}

// settledAll checks how messages of a group have ended: each is acked by a consumer or a dead letter, and dead only because a consumer said
// so or its attempts are used up. journal is all of the partition's, for traces.
func (c *checker) settledAll(g *lognode.GroupConfig, p mq.PartitionID, letters dead, journal map[mq.Position]mq.Entry) {
	limit := uint32(g.Settings.MaxAttempts)
	for at := range c.acked {
		key := groupPlace{g.ID, at}
		if at.partition != p || c.s.excused(at) || c.mayExpire(c.values[at]) {
			continue
		}
		acked := slices.ContainsFunc(c.tries[key], func(t *try) bool { return t.outcome == lognode.Ack && !t.refused })
		if _, isDead := letters[at.offset]; !isDead && !acked {
			c.s.fail("offset %d of partition %d is not dead in group %d, and nobody acked it", at.offset, p.Number, g.ID)
		}
	}
	for _, off := range slices.Sorted(maps.Keys(letters)) {
		key := groupPlace{g.ID, place{p, off}}
		rejected := false
		for _, t := range c.tries[key] {
			rejected = rejected || t.outcome == lognode.Reject
		}
		d := letters[off]
		if _, acked := c.acks[key]; acked {
			c.s.fail("offset %d of partition %d was acked in group %d and is dead", off, p.Number, g.ID)
		}
		if !rejected && (limit == 0 || d.Attempt != limit) {
			c.s.fail("offset %d of partition %d is dead in group %d after %d attempts of %d", off, p.Number, g.ID, d.Attempt, limit)
		}
		if n := lognode.Deaths(journal, g.ID, off); n != 1 { // nobody redrives any
			c.s.fail("offset %d of partition %d is dead in group %d by %d records", off, p.Number, g.ID, n)
		}
	}
}
