package chaos

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// rejectEvery: one in so many deliveries is rejected.
const rejectEvery = 30

// rejected judges a group whose dead letters are redriven: what was rejected comes back after a redrive, and not
// before; in the end all is acknowledged. What was handed out before the rejected hand-over, as its fence says, may be
// on its way for longer than that: it did not come back.
type rejected struct {
	coverage
	redrives int  // begun
	running  bool // the last of them
	dead     map[place]rejection
	rejects  int
	moved    uint64 // dead letters that redrives said to have moved
	// open is until when a redrive that was not answered may still be carried out.
	open time.Time
}

// rejection is one that was answered with success: of which hand-over, and how many redrives were begun when it was sent.
type rejection struct {
	fence uint64
	began int
}

func newRejected(broke func(string, ...any)) *rejected {
	return &rejected{coverage: coverage{group: deadGroup, broke: broke, seen: map[place]uint64{}}, dead: map[place]rejection{}}
}

func (s *rejected) file(d *client.Delivery, fence uint64) {
	s.coverage.file(d, fence)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{d.Partition, d.Offset}
	last, ok := s.dead[at]
	if !ok || fence <= last.fence {
		return
	}
	if last.began == s.redrives && time.Now().After(s.open) {
		s.broke("%s: %d/%d was rejected (fence %x), not redriven, and came back (fence %x, attempt %d, handed out at %v)", s.group,
			at.partition, at.offset, last.fence, fence, d.Attempt, d.LeaseExpiresAt.Add(-lease))
	}
	delete(s.dead, at)
}

// began is how many redrives were begun: what is rejected from now on waits for another one. While one runs it may
// bring that back, too, and the answer is none of these numbers.
func (s *rejected) began() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return -1
	}
	return s.redrives
}

// rejecting files that rejections are sent.
func (s *rejected) rejecting([]delivered) func(delivered) {
	began := s.began()
	return func(d delivered) { s.reject(d, began) }
}

// reject files a rejection that was answered with success.
func (s *rejected) reject(d delivered, began int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejects++
	if at := (place{d.Partition, d.Offset}); s.dead[at].fence < d.fence {
		s.dead[at] = rejection{d.fence, began}
	}
}

// redrive brings dead letters back now and then, until ctx ends.
func (tr *traffic) redrive(ctx context.Context) {
	for try := 0; ctx.Err() == nil; try++ {
		pause(ctx, time.Second)
		tr.rejected.begin()
		call, cancel := context.WithTimeout(ctx, publishWait)
		answer, err := tr.one[try%len(tr.one)].Redrive(call, tr.topic, deadGroup, api.RedriveRequest{}, false)
		cancel()
		if err != nil {
			tr.note("redrive", err)
		}
		tr.rejected.ended(answer.Messages, err != nil || answer.Partial)
	}
}

func (s *rejected) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.redrives++
	s.running = true
}

func (s *rejected) ended(moved uint64, unknown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved += moved
	s.running = false
	if unknown {
		s.open = time.Now().Add(lease)
	}
}
