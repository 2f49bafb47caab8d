package mq

import "testing"

func TestMedian(t *testing.T) {
	for _, x := range []struct {
		all  []int64
		own  int64
		want int64
	}{
		{[]int64{7}, 100, 7},
		{[]int64{9, 1, 5}, 0, 5},
		{[]int64{9, 1, 5, 3}, 3, 3}, // 3 and 5 are in the middle
		{[]int64{9, 1, 5, 3}, 5, 5},
		{[]int64{9, 1, 5, 3}, -50, 3}, // both on one side
		{[]int64{9, 1, 5, 3}, 50, 5},
		{[]int64{-2, 2}, 0, 2}, // as near
	} {
		if got := Median(x.all, x.own); got != x.want {
			t.Errorf("of %v, with %d: %d, want %d", x.all, x.own, got, x.want)
		}
	}
}
