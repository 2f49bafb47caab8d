package simulate

import (
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// lateAfter is that of replica/retain.go.
const lateAfter = int64(10 * time.Second)

// noteWait is that of replica/slow.go; nobody needs its timer, as WatchDisk looks at every leader.
func (p *partition) noteWait() {
	l := p.lead
	if l == nil || !l.serving {
		return
	}
	wait := !l.seg.Sealed() && l.seg.Commit() == l.seg.Next() && (len(l.batches) > 0 || l.answers.Waits()) && !l.mayPlace()
	if wait != l.waits.On() {
		l.waits.Note(p.node.host.Steady(), wait)
	}
}

// foundSlow says whether a leader here finds that the own disk is slower than those of its followers.
func (n *Node) foundSlow() (found bool) {
	now := n.host.Steady()
	for _, p := range n.order {
		if l := p.lead; l != nil && l.serving {
			late := l.lag.Of(now, l.seg.Tail(l.seg.Self()), l.seg.Commit(), l.seg.Next()) > lateAfter
			found = found || late || l.waits.On() && l.waits.Left(now) == 0
		}
	}
	return found
}

// WatchDisk is standing.watchDisk: it says whether the node's registration is to call its disk slow. said says that it does; a
// node without a registration counts as one that does. others says of how many other nodes that can lead, and whose disks are quick,
// there is word.
func (n *Node) WatchDisk(heads []mq.Head, said bool, others int) (slow bool) {
	now := n.host.Steady()
	slow = n.slow.Look(now, n.foundSlow(), time.Duration(n.disk.waited(now)))
	if slow && said {
		n.leadNothing(heads, others, "slow_disk")
	}
	return slow
}
