package coordinator

import (
	"time"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// reunion is how long the first member that comes back to a group that everybody had left waits for the others whose
// partitions it would get.
const reunion = 2 * time.Second

// reunions are groups whose members were all gone at once: nobody who lives was there when the assignment was written.
// That is mostly no fault of theirs. The coordinators were frozen with their leases, or the network between was cut, and
// the members are back within moments, one after the other. Giving all to the first and most of it back to the others
// would move nearly everything twice for nothing. Who came back has its own partitions meanwhile: the last assignment
// stands. One goroutine owns it; a new controller begins without, which costs at most one more wait.
type reunions map[mq.GroupID]gathering

type gathering struct {
	assignment int64     // revision of the assignment that stands
	since      time.Time // when the first one was seen to be back
	over       bool      // all came: who goes from now on goes alone
}

// waits says whether a group's assignment is to be left as it is for now, to let its members come back.
func (r reunions) waits(have *meta.Assignment, members []meta.Member, now time.Time) bool {
	owners, missing := 0, false
	there := make(map[string]bool, len(members))
	stayed := false
	for _, m := range members {
		there[m.Name] = true
		stayed = stayed || m.Revision < have.Revision
	}
	for _, m := range have.Members {
		if len(m.Partitions) > 0 {
			owners++
			missing = missing || !there[m.Name]
		}
	}
	if len(members) == 0 || stayed || owners < 2 { // who was alone is not waited for
		delete(r, have.Group)
		return false
	}
	g := r[have.Group]
	if g.assignment != have.Revision {
		g = gathering{assignment: have.Revision, since: now}
	}
	g.over = g.over || !missing || now.Sub(g.since) >= reunion
	r[have.Group] = g
	return !g.over
}
