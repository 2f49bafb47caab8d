package client

import "time"

// gather is the goroutine that owns the batch being filled. It hands a batch over when it is full, when it
// has lingered long enough, on a flush, and at the end.
func (p *Publisher) gather() {
	defer close(p.batches)
	var (
		current  *batch
		out      []*batch // handed over, not known to be answered
		lingered <-chan time.Time
	)
	cut := func() {
		lingered = nil
		if current == nil {
			return
		}
		out = append(unanswered(out), current)
		p.batches <- current // waits while InFlight batches are on the way; then Publish waits as well
		current = nil
	}
	for {
		select {
		case h, open := <-p.in:
			if !open {
				cut()
				return
			}
			if h.flush != nil {
				cut()
				out = unanswered(out)
				h.flush <- append([]*batch(nil), out...)
				continue
			}
			if current != nil && current.bytes+h.size > int64(p.options.MaxBytes) {
				cut()
			}
			if current == nil {
				current = &batch{done: make(chan struct{})}
				lingered = time.After(p.options.Linger)
			}
			current.add(h)
			if len(current.messages) >= p.options.MaxMessages || current.bytes >= int64(p.options.MaxBytes) {
				cut()
			}
		case <-lingered:
			cut()
		}
	}
}

func (b *batch) add(h handover) {
	b.messages = append(b.messages, h.message)
	b.futures = append(b.futures, h.future)
	b.bytes += h.size
}

// unanswered drops the batches that are done; at most InFlight and one more remain.
func unanswered(list []*batch) []*batch {
	kept := list[:0]
	for _, b := range list {
		select {
		case <-b.done:
		default:
			kept = append(kept, b)
		}
	}
	clear(list[len(kept):])
	return kept
}

// sendBatches is one of the goroutines that carry batches to the server.
func (p *Publisher) sendBatches() {
	for b := range p.batches {
		results, err := p.client.PublishBatch(p.ctx, p.topic, b.messages)
		for i, f := range b.futures {
			if err != nil {
				f.result.Err = err
			} else {
				f.result = results[i]
			}
			close(f.done)
		}
		p.slots.Release(int64(len(b.futures)))
		p.bytes.Release(b.bytes)
		close(b.done)
	}
}
