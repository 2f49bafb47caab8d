package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/splashdam/splashdam/coordinator"
	"github.com/splashdam/splashdam/gateway"
	"github.com/splashdam/splashdam/lognode"
	"github.com/splashdam/splashdam/shared/heap"
	"github.com/splashdam/splashdam/shared/metrics"
)

// readyFile is the descriptor on which a child says that it serves (cmd.ExtraFiles begins at 3).
const readyFile = 3

// RunChild runs one component when args (without the program's name) are those of a child of a cluster
// of processes, and returns when it has ended; child is false, and nothing happened, when they are not.
// A main calls it first and ends with status 1 on an error.
func RunChild(args []string) (child bool, err error) {
	if len(args) != 5 || args[0] != childCommand {
		return false, nil
	}
	ready := os.NewFile(readyFile, "ready")
	if ready == nil {
		return true, errors.New("a child is started by a cluster, not by hand")
	}
	defer ready.Close()
	if err := runChild(args[1], args[2], args[3], args[4], ready); err != nil {
		// The parent shows the first line; the whole text is in the log.
		first, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintln(ready, first)
		return true, err
	}
	return true, nil
}

func runChild(kind, file, debug, level string, ready io.WriteCloser) error {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: least}))
	cfg, err := readConfig(kind, file)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// Stdin ends when the parent does, on systems without a signal for that. Nobody waits for this
	// goroutine: a blocked read can't be stopped, and the process ends with its main.
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if kind == nodeKind { // as the node's own main does
		defer heap.Tend()()
	}
	reg := metrics.NewRegistry()
	listener, err := metrics.Serve(debug, reg, log)
	if err != nil {
		return err
	}
	run, err := launchHere(ctx, cfg, log, reg)
	if err != nil {
		log.Error("the start failed", "err", err)
		return errors.Join(err, listener.Close())
	}
	if _, err := io.WriteString(ready, "ready\n"); err != nil {
		return errors.Join(err, run.kill())
	}
	ready.Close()
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-run.failed:
		log.Error("the component ended by itself", "err", failure)
	}
	draining, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	return errors.Join(failure, run.stop(draining), listener.Close())
}

// readConfig reads what the parent wrote for this child.
func readConfig(kind, file string) (any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	switch kind {
	case coordinatorKind:
		return decodeConfig[coordinator.Config](text)
	case nodeKind:
		return decodeConfig[lognode.Config](text)
	case gatewayKind:
		return decodeConfig[gateway.Config](text)
	}
	return nil, fmt.Errorf("there is no kind of component named %q", kind)
}

// drainTimeout bounds how long a child takes to end after SIGTERM.
const drainTimeout = 10 * time.Second

func decodeConfig[C any](text []byte) (any, error) {
	var cfg C
	if err := json.Unmarshal(text, &cfg); err != nil {
		return nil, err
	}
	return cfg, nil
}
