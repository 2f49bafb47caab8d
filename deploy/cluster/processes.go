package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// Processes says how components become processes of their own. The program that runs them is this one
// again, with hidden arguments: its main (or a test's TestMain) calls RunChild before anything else.
type Processes struct {
	// Exe is the program to run; empty: this one.
	Exe string
	// LogLevel is the least level that goes to <data>/<name>.log.
	LogLevel slog.Level
}

// childCommand is the first argument of a child; see RunChild.
const childCommand = "splashdam-child"

// process is one run of a component as a process of its own.
type process struct {
	name string
	cmd  *exec.Cmd
	tie  *os.File // the writing end of the child's stdin: it ends with us, whatever happens

	mu     sync.Mutex
	ending bool // somebody stops or kills it, so that its end is no failure

	done chan struct{} // closed when it has ended and was waited for
	err  error         // how it ended, valid after done
}

// spawn starts a child and returns when its component serves.
func (c *Cluster) spawn(ctx context.Context, kind, name string, cfg any) (running, error) {
	text, err := json.MarshalIndent(cfg, "", "  ")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.opts.Dir, name+".json")
	if err := replaceFile(file, append(text, '\n')); err != nil {
		return nil, err
	}
	exe := c.opts.Processes.Exe
	if exe == "" {
		if exe, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	logName := filepath.Join(c.opts.Dir, name+".log")
	logFile, err := openForChild(logName)
	if err != nil {
		return nil, err
	}
	defer logFile.Close() // the child has its own
	p := &process{name: name, done: make(chan struct{})}
	p.cmd = exec.Command(exe, childCommand, kind, file, c.layout.addr(name+"/debug"), c.opts.Processes.LogLevel.String())
	p.cmd.Stdout, p.cmd.Stderr = logFile, logFile
	p.cmd.SysProcAttr = childAttributes()
	ready, err := c.startProcess(p)
	if err != nil {
		return nil, err
	}
	go p.wait(c.failed, logName)
	if err := p.awaitReady(ctx, ready, logName); err != nil {
		return nil, errors.Join(err, p.kill())
	}
	return p, nil
}

// startProcess gives the pipe on which the child says that it serves.
func (c *Cluster) startProcess(p *process) (ready *os.File, err error) {
	stdin, tie, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	ready, say, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, tie.Close())
	}
	defer say.Close()
	p.cmd.Stdin, p.cmd.ExtraFiles, p.tie = stdin, []*os.File{say}, tie
	c.spawner.do(func() { err = p.cmd.Start() })
	if err != nil {
		return nil, errors.Join(err, tie.Close(), ready.Close())
	}
	return ready, nil
}

// wait is the goroutine that owns the child's end.
func (p *process) wait(failed chan<- error, logName string) {
	p.err = p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ending {
		report(failed, &Ended{p.name, fmt.Errorf("%s, see %s", p.cmd.ProcessState, logName)})
	}
	close(p.done)
}

// awaitReady waits for the child's line. A child that dies closes the pipe without one.
func (p *process) awaitReady(ctx context.Context, ready *os.File, logName string) error {
	defer context.AfterFunc(ctx, func() { ready.Close() })()
	defer ready.Close()
	line, err := bufio.NewReader(ready).ReadString('\n')
	if err == nil && line == "ready\n" {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("it does not become ready (see %s): %w", logName, ctx.Err())
	}
	p.mu.Lock()
	p.ending = true // the error is told here
	p.mu.Unlock()
	return fmt.Errorf("it ended at once: %s (see %s)", strings.TrimSpace(line), logName)
}

func (p *process) stop(ctx context.Context) error {
	if err := p.ask(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return errors.Join(p.err, p.tie.Close())
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("it did not end in time: %w", ctx.Err()), p.kill())
	}
}

// kill is kill -9, which ends a paused process too.
func (p *process) kill() error {
	err := p.ask(syscall.SIGKILL)
	<-p.done
	return errors.Join(err, p.tie.Close())
}

// ask sends a signal that ends the process.
func (p *process) ask(s os.Signal) error {
	p.mu.Lock()
	p.ending = true
	p.mu.Unlock()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

func (p *process) signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// spawner starts processes from one thread that lives as long as the cluster: the kernel ends a child
// with the thread that made it, not with the process (prctl(2), PR_SET_PDEATHSIG).
type spawner struct {
	jobs chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

// do runs job on the spawner's thread and waits for it.
func (s *spawner) do(job func()) {
	finished := make(chan struct{})
	s.jobs <- func() { defer close(finished); job() }
	<-finished
}

func (s *spawner) close() { close(s.jobs); <-s.done }
