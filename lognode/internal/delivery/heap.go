package delivery

// heap is a binary heap, the least first. Both users delete lazily: what is no longer true is skipped when it
// comes up, and prune throws it out when it outweighs the rest.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
}

func (h *heap[T]) push(v T) {
	h.items = append(h.items, v)
	i := len(h.items) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(v, h.items[parent]) {
			break
		}
		h.items[i] = h.items[parent]
		i = parent
	}
	h.items[i] = v
}

func (h *heap[T]) pop() T {
	top := h.items[0]
	last := len(h.items) - 1
	v := h.items[last]
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	if last > 0 {
		h.sink(0, v)
	}
	return top
}

func (h *heap[T]) sink(i int, v T) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if child+1 < len(h.items) && h.less(h.items[child+1], h.items[child]) {
			child++
		}
		if !h.less(h.items[child], v) {
			break
		}
		h.items[i] = h.items[child]
		i = child
	}
	h.items[i] = v
}

// prune keeps what keep says and restores the order.
func (h *heap[T]) prune(keep func(T) bool) {
	kept := h.items[:0]
	for _, v := range h.items {
		if keep(v) {
			kept = append(kept, v)
		}
	}
	clear(h.items[len(kept):])
	h.items = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		h.sink(i, kept[i])
	}
}

// tooStale is the bound of a lazy heap: at it, what is stale is thrown out, at a cost that the pushes since the
// last time have paid for.
func tooStale(length, live int) bool { return length > 2*live+4096 }
