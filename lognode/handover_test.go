package lognode

import (
	"fmt"
	"testing"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// What a node leads goes to others only if one of them had better lead, and as many can follow as the next segment needs.
func TestRoomForWhatANodeLeads(t *testing.T) {
	t.Parallel()
	good, full, slow, skewed, stopping := meta.Node{}, meta.Node{Full: true}, meta.Node{Slow: true}, meta.Node{Skewed: true}, meta.Node{Stopping: true}
	for name, x := range map[string]struct {
		me     meta.Node
		others []meta.Node
		want   int
	}{
		"nothing is wrong":                    {good, []meta.Node{good, good}, 0},
		"it stops":                            {stopping, []meta.Node{good, good}, 2},
		"it stops, and one is full":           {stopping, []meta.Node{good, full}, 1},
		"all stop":                            {stopping, []meta.Node{stopping, stopping}, 0},
		"it stops, the others are slow":       {stopping, []meta.Node{slow, slow}, 2},
		"it stops, a clock is wrong":          {stopping, []meta.Node{good, skewed}, 2},
		"its clock is wrong: it follows":      {skewed, []meta.Node{good, good}, 3},
		"all clocks are wrong":                {skewed, []meta.Node{skewed, skewed}, 0},
		"its clock is wrong, a disk is slow":  {skewed, []meta.Node{slow, skewed}, 3},
		"its disk is slow: nobody waits":      {slow, []meta.Node{good, good}, 2},
		"another disk is slow too":            {slow, []meta.Node{good, slow}, 1},
		"all disks are slow":                  {slow, []meta.Node{slow, slow}, 0},
		"a quick one has the wrong time":      {slow, []meta.Node{good, skewed}, 2},
		"all that are quick have it":          {slow, []meta.Node{skewed, skewed}, 0},
		"a slow one with the wrong time goes": {meta.Node{Slow: true, Skewed: true}, []meta.Node{slow, good}, 3},
	} {
		x.me.Store = "me"
		nodes := []meta.Node{{Store: "me"}} // as it was registered before
		for i, n := range x.others {
			n.Store = mq.StoreID(fmt.Sprint(i))
			nodes = append(nodes, n)
		}
		if got := room(&x.me, nodes); got != x.want {
			t.Errorf("%s: room for %d, not %d", name, got, x.want)
		}
	}
}
