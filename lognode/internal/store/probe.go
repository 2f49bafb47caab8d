package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// prober writes to a file of its own and syncs it, on one goroutine: a disk that hangs takes that one,
// and who asks gives up by its context.
type prober struct {
	file     *os.File
	before   func(bytes int64) // Config.BeforeSync
	requests chan chan error
	stop     chan struct{}
	done     sync.WaitGroup
}

func newProber(cfg *Config) (*prober, error) {
	f, err := os.OpenFile(filepath.Join(cfg.Dir, "probe"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	p := &prober{file: f, before: cfg.BeforeSync, requests: make(chan chan error), stop: make(chan struct{})}
	p.done.Go(p.loop)
	return p, nil
}

func (p *prober) loop() {
	for n := byte(0); ; n++ {
		select {
		case <-p.stop:
			return
		case answer := <-p.requests:
			if p.before != nil {
				p.before(0)
			}
			_, err := p.file.WriteAt([]byte{'p', 'r', 'o', 'b', 'e', ' ', '0' + n%10, '\n'}, 0)
			answer <- errors.Join(err, p.file.Sync())
		}
	}
}

func (p *prober) close() error {
	close(p.stop)
	p.done.Wait()
	return p.file.Close()
}

// Probe writes and syncs a few bytes in a file of its own. The node lets its lease go when it fails or does
// not return in time: a node whose disk stalls must not look alive. It also fails when the store has failed.
// One probe is under way at a time; Close waits for it.
func (s *Store) Probe(ctx context.Context) error {
	if err := s.Err(); err != nil {
		return err
	}
	answer := make(chan error, 1)
	select {
	case s.probes.requests <- answer:
	case <-ctx.Done():
		return fmt.Errorf("store: probe: %w", ctx.Err())
	case <-s.probes.stop:
		return ErrClosed
	}
	select {
	case err := <-answer:
		if err != nil {
			return fmt.Errorf("store: probe: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("store: probe: %w", ctx.Err())
	}
}
