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
// before; in the end all is acknowledged.
type rejected struct {
	coverage
	redrives int           // begun
	running  bool          // the last of them
	dead     map[place]int // redrives that were begun when it was rejected
	rejects  int
	moved    uint64 // dead letters that redrives said to have moved
	// open is until when a redrive that was not answered may still be carried out.
	open time.Time
}

func newRejected(broke func(string, ...any)) *rejected {
	return &rejected{coverage: coverage{group: deadGroup, broke: broke, seen: map[place]uint64{}}, dead: map[place]int{}}
}

func (s *rejected) file(d *client.Delivery, fence uint64) {
	s.coverage.file(d, fence)
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{d.Partition, d.Offset}
	if before, ok := s.dead[at]; ok && before == s.redrives && time.Now().After(s.open) {
		s.broke("%s: %d/%d was rejected, not redriven, and came back", s.group, at.partition, at.offset)
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
func (s *rejected) rejecting([]delivered) func(*client.Delivery) {
	began := s.began()
	return func(d *client.Delivery) { s.reject(d, began) }
}

// reject files a rejection that was answered with success.
func (s *rejected) reject(d *client.Delivery, began int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead[place{d.Partition, d.Offset}] = began
	s.rejects++
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
