package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/splashdam/splashdam/shared/client"
)

// maxEnvironment bounds what a message puts into the environment of its command; headers that do not fit are left out, since
// no system starts a program with more than it takes.
const maxEnvironment = 64 << 10

// runner runs a command per message: its value on stdin, what is known of it in MQ_ variables. Exit status 0
// acknowledges it, any other gives it back as a failed attempt.
type runner struct {
	s       *session
	command string
	most    int // messages, 0 for no bound
	stop    context.CancelFunc

	mu   sync.Mutex // one command's output at a time reaches the terminal
	done int
}

// execute consumes with a command until a signal comes, --max messages are done, or without --follow nothing is left.
func (c *consumeCmd) execute(s *session) error {
	if c.Max > 0 && c.Concurrency > 1 {
		return wrongUsage("--max goes with one command at a time: several messages are on their way otherwise")
	}
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	r := &runner{s: s, command: c.Exec, most: c.Max, stop: stop}
	o := client.ConsumerOptions{Concurrency: c.Concurrency, Lease: c.Lease, Name: consumerName, Drain: time.Hour, Partitions: c.Only}
	if !c.Follow {
		o.Idle = time.Second
	}
	if c.Member != "" {
		o.Name, o.Member = "", &client.MemberOptions{Name: c.Member, Zone: c.Zone, TTL: c.TTL, OnAssignment: s.assigned(c.Member)}
	}
	return interruptedIsFine(s, s.client.Consumer(c.Topic, c.Group, r.handle, o).Run(ctx))
}

// handle is one command. It is killed when the lease is lost: its message is with somebody else then.
func (r *runner) handle(ctx context.Context, d client.Delivery) error {
	shell := []string{"/bin/sh", "-c"}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/c"}
	}
	cmd := exec.CommandContext(ctx, shell[0], append(shell[1:], r.command)...)
	cmd.Env = append(os.Environ(), environment(&d)...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(d.Value), &limited{b: &out}, &limited{b: &errs}
	cmd.WaitDelay = 5 * time.Second // for what it started and left with its output open
	err := cmd.Run()
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.s.out.Write(out.Bytes())
	_, _ = r.s.err.Write(errs.Bytes())
	if r.done++; r.done == r.most {
		r.stop()
	}
	if err == nil {
		return nil
	}
	fmt.Fprintf(r.s.err, "%s, attempt %d: given back, since the command failed: %v\n", place(d.Partition, d.Offset), d.Attempt, err)
	var failed *exec.ExitError
	if !errors.As(err, &failed) {
		return fmt.Errorf("the command could not run: %w", err)
	}
	return err
}

// limited keeps the first megabyte of what a command prints, so that it can be shown in one piece; the rest is dropped.
type limited struct{ b *bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := 1<<20 - l.b.Len(); room > 0 {
		l.b.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// environment is what a command is told of its message.
func environment(d *client.Delivery) []string {
	out := []string{"MQ_ID=" + d.ID, "MQ_TOPIC=" + d.Topic, "MQ_PARTITION=" + strconv.FormatUint(uint64(d.Partition), 10),
		"MQ_OFFSET=" + strconv.FormatUint(d.Offset, 10), "MQ_ATTEMPT=" + strconv.FormatUint(uint64(d.Attempt), 10),
		"MQ_TIMESTAMP=" + d.Timestamp.UTC().Format(time.RFC3339Nano), "MQ_RECEIPT=" + d.Receipt, "MQ_FENCE=" + d.Fence,
		"MQ_LANE=" + d.Lane, "MQ_CONTENT_TYPE=" + envText(d.ContentType), "MQ_KEY=" + envText(string(d.Key))}
	left := maxEnvironment
	for name, value := range d.Headers {
		if left -= len(name) + len(value); left >= 0 {
			out = append(out, "MQ_HEADER_"+variable(name)+"="+envText(value))
		}
	}
	return out
}

// envText makes a text that can be in an environment: no zero bytes, valid UTF-8.
func envText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, string(utf8.RuneError)), "\x00", "")
}

// variable makes the name of a header one of a variable: trace-id is TRACE_ID.
func variable(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}
