package wheel

// The heap of what is due in the present tick. Each timer knows its index, so that it can be cancelled.

func (w *Wheel) push(t *Timer) {
	t.place = inHeap
	w.near = append(w.near, t)
	w.up(len(w.near) - 1)
}

// remove takes the timer at i out of the heap; the caller sets its place.
func (w *Wheel) remove(i int) {
	last := len(w.near) - 1
	moved := w.near[last]
	w.near[last] = nil
	w.near = w.near[:last]
	if i == last {
		return
	}
	w.near[i] = moved
	moved.index = int32(i)
	w.down(i)
	w.up(int(moved.index))
}

func (w *Wheel) up(i int) {
	t := w.near[i]
	for i > 0 {
		parent := (i - 1) / 2
		if w.near[parent].Due <= t.Due {
			break
		}
		w.near[i] = w.near[parent]
		w.near[i].index = int32(i)
		i = parent
	}
	w.near[i] = t
	t.index = int32(i)
}

func (w *Wheel) down(i int) {
	t := w.near[i]
	for {
		child := 2*i + 1
		if child >= len(w.near) {
			break
		}
		if child+1 < len(w.near) && w.near[child+1].Due < w.near[child].Due {
			child++
		}
		if t.Due <= w.near[child].Due {
			break
		}
		w.near[i] = w.near[child]
		w.near[i].index = int32(i)
		i = child
	}
	w.near[i] = t
	t.index = int32(i)
}
