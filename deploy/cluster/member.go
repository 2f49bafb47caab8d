package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// The tiers, as they are called in names of members, directories and files.
const (
	coordinatorKind = "coordinator"
	nodeKind        = "node"
	gatewayKind     = "gateway"
)

func memberName(kind string, i int) string { return kind + "-" + strconv.Itoa(i) }

// running is one run of a component, in this process or in its own.
type running interface {
	// stop drains and waits for the end; when ctx ends first, it ends hard.
	stop(ctx context.Context) error
	// kill ends it as near to kill -9 as its kind of run allows, and waits for the end.
	kill() error
	// signal passes a signal on; a component in this process answers errNotAProcess.
	signal(os.Signal) error
}

var errNotAProcess = errors.New("only a cluster of processes can do that")

// Member is one component of the cluster: it keeps its name, addresses and directory from run to run.
// Its methods may be called by anyone, one at a time each.
type Member struct {
	name   string
	launch func(ctx context.Context) (running, error)

	mu  sync.Mutex
	run running // nil while it does not run
}

// Name is "node-1" and the like.
func (m *Member) Name() string { return m.name }

// Start starts it and returns when it serves. Starting what runs is an error.
func (m *Member) Start(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run != nil {
		return fmt.Errorf("%s is running already", m.name)
	}
	run, err := m.launch(ctx)
	if err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	m.run = run
	return nil
}

// Stop drains it and waits for its end. Stopping what does not run is fine.
func (m *Member) Stop(ctx context.Context) error {
	return m.end("stop", func(r running) error { return r.stop(ctx) })
}

// Kill ends it without any warning: SIGKILL to a process. A component in this process is ended as
// abruptly as it allows, which still gives back its memory and files in order; what must survive a
// real crash is tested with processes.
func (m *Member) Kill() error {
	return m.end("kill", running.kill)
}

// Restart stops it, if it runs, and starts it again with the same name, addresses and directory.
func (m *Member) Restart(ctx context.Context) error {
	if err := m.Stop(ctx); err != nil {
		return err
	}
	return m.Start(ctx)
}

// Pause freezes its process with SIGSTOP: it holds its connections and answers nothing.
func (m *Member) Pause() error { return m.signal("pause", syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (m *Member) Resume() error { return m.signal("resume", syscall.SIGCONT) }

func (m *Member) end(verb string, how func(running) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil {
		return nil
	}
	err := how(m.run)
	m.run = nil
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, m.name, err)
	}
	return nil
}

func (m *Member) signal(verb string, s os.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == nil {
		return fmt.Errorf("%s %s: it does not run", verb, m.name)
	}
	if err := m.run.signal(s); err != nil {
		return fmt.Errorf("%s %s: %w", verb, m.name, err)
	}
	return nil
}
