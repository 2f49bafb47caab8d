package balance

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// TestMovesMakeItEven: with every node a replica of everything, repeated rounds end within one, each move is to
// a replica, and a round that is even moves nothing.
func TestMovesMakeItEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stores := []mq.StoreID{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "nodes")]
		var list []Partition
		for i := range rapid.IntRange(0, 30).Draw(t, "partitions") {
			list = append(list, Partition{mq.PartitionID{Topic: 1, Number: uint32(i)}, rapid.SampledFrom(stores).Draw(t, "leader"), stores})
		}
		moved := 0
		for range 100 {
			moves := Moves(list, 3)
			if len(moves) > 3 {
				t.Fatalf("%d moves at once", len(moves))
			}
			if len(moves) == 0 {
				break
			}
			for i := range list {
				if to, ok := moves[list[i].ID]; ok {
					list[i].Leader = to
					moved++
				}
			}
		}
		leads := map[mq.StoreID]int{}
		for _, p := range list {
			leads[p.Leader]++
		}
		least, most := len(list), 0
		for _, s := range stores {
			least, most = min(least, leads[s]), max(most, leads[s])
		}
		if most-least > 1 || moved > len(list) {
			t.Fatalf("%v after %d moves of %d partitions", leads, moved, len(list))
		}
	})
}

func TestMovesStayAmongReplicas(t *testing.T) {
	list := []Partition{
		{mq.PartitionID{Topic: 1, Number: 0}, "a", []mq.StoreID{"a", "b"}},
		{mq.PartitionID{Topic: 1, Number: 1}, "a", []mq.StoreID{"a"}},
		{mq.PartitionID{Topic: 1, Number: 2}, "a", []mq.StoreID{"a"}},
	}
	if m := Moves(list, 10); len(m) != 1 || m[list[0].ID] != "b" {
		t.Fatalf("%v", m)
	}
}
