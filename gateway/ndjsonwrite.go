package gateway

import (
	"time"
)

// writeAbout is how many bytes of results are gathered before they are written, while results are there.
const writeAbout = 32 << 10

// write answers lines in their order, each when its batch has its result, until the stream has ended and
// all is answered.
func (s *lineStream) write() {
	var b []byte
	taken := make([]slot, 0, 1024)
	for {
		taken = s.takeSlots(taken[:0])
		if len(taken) == 0 {
			s.flush(b)
			return
		}
		for _, at := range taken {
			if at.batch != nil && !isDone(at.batch) {
				b = s.flush(b) // whoever waits for the lines so far gets them now
				<-at.batch.done
			}
			b = append(appendResult(b, at), '\n')
			s.answered(at.batch)
			if len(b) >= writeAbout {
				b = s.flush(b)
			}
		}
		if s.idle() {
			b = s.flush(b)
		}
	}
}

func isDone(b *outgoing) bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// takeSlots waits for results to write and moves them to dst; none come when the stream has ended.
func (s *lineStream) takeSlots(dst []slot) []slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.slots) == 0 && !s.ended {
		s.changed.Wait()
	}
	n := min(len(s.slots), cap(dst))
	dst = append(dst, s.slots[:n]...)
	clear(s.slots[:n])
	if s.slots = s.slots[n:]; len(s.slots) == 0 {
		s.slots = nil
	}
	s.changed.Broadcast()
	return dst
}

func (s *lineStream) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots) == 0
}

// answered notes that a result is written, and frees the batch after its last one.
func (s *lineStream) answered(b *outgoing) {
	if b == nil {
		return
	}
	if b.written++; b.written < b.builder.Len() {
		return
	}
	size := b.builder.Size()
	b.release()
	s.mu.Lock()
	s.bytes -= size
	s.changed.Broadcast()
	s.mu.Unlock()
}

// flush writes results to the client. When it is gone they are dropped, and reading ends.
func (s *lineStream) flush(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	if broken {
		return b[:0]
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(s.g.cfg.IdleTimeout))
	_, err := s.out.Write(b)
	if err == nil {
		err = s.control.Flush()
	}
	if err != nil {
		s.mu.Lock()
		s.broken = true
		s.changed.Broadcast()
		s.mu.Unlock()
		s.cancel()
	}
	return b[:0]
}
