package schedule

// recent remembers the last numbers of a kind, each with a value, up to a bound.
type recent[V any] struct {
	most  int
	value map[uint64]V
	order []uint64 // the oldest first, from first on
	first int
}

func newRecent[V any](most int) recent[V] { return recent[V]{most: most, value: map[uint64]V{}} }

func (r *recent[V]) get(number uint64) (V, bool) {
	v, ok := r.value[number]
	return v, ok
}

func (r *recent[V]) put(number uint64, value V) {
	if _, ok := r.value[number]; !ok {
		r.order = append(r.order, number)
	}
	r.value[number] = value
	if len(r.order)-r.first > r.most {
		delete(r.value, r.order[r.first])
		r.first++
	}
	if r.first > r.most {
		r.order = append([]uint64(nil), r.order[r.first:]...)
		r.first = 0
	}
}

// all are the numbers, the oldest first.
func (r *recent[V]) all() []uint64 { return r.order[r.first:] }
