// Command local runs a whole Splashdam on this machine: everything in one process, or with -processes
// each component in its own. It prints the addresses and what to try, and stops in order on Ctrl-C; a
// second Ctrl-C ends it at once, which loses nothing that was acknowledged.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/splashdam/splashdam/deploy/cluster"
	"github.com/splashdam/splashdam/gateway"
	"github.com/splashdam/splashdam/lognode"
	"github.com/splashdam/splashdam/shared/metrics"
)

func main() {
	child, err := cluster.RunChild(os.Args[1:])
	if !child {
		err = run(os.Args[1:], os.Stdout, os.Stderr)
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// flags are what the command line says.
type flags struct {
	options   cluster.Options
	processes bool
	level     slog.Level
	start     time.Duration
	debug     string
	archive   string
}

func parse(args []string, stdout io.Writer) (flags, error) {
	var f flags
	o := &f.options
	set := flag.NewFlagSet("local", flag.ContinueOnError)
	set.SetOutput(io.Discard) // an error is printed once, by main
	set.StringVar(&o.Dir, "data", "./data", "directory for everything that is kept")
	set.StringVar(&o.HTTP, "http", "127.0.0.1:8080", "address of the first gateway; further ones take the next ports")
	set.IntVar(&o.Nodes, "nodes", 1, "log nodes; with three, every message is on three and safe on two")
	set.IntVar(&o.Gateways, "gateways", 1, "gateways")
	set.IntVar(&o.Coordinators, "coordinators", 1, "coordinators: 1, 3 or 5; fixed by the first start")
	set.StringVar(&f.archive, "archive", "", "directory, or a bucket's URL, for what retention removes of topics with the setting archive")
	set.BoolVar(&f.processes, "processes", false, "one process for each component, logging to <data>/<name>.log")
	set.BoolVar(&o.Insecure, "insecure", false, "allow an -http address that other machines can reach (there is no TLS and no login yet)")
	set.TextVar(&f.level, "log-level", slog.LevelWarn, "least level shown: debug, info, warn or error")
	set.StringVar(&f.debug, "debug", "", "address for metrics and profiles of this process, for example 127.0.0.1:6060")
	set.DurationVar(&f.start, "start-timeout", time.Minute, "how long the start may take")
	if err := set.Parse(args); errors.Is(err, flag.ErrHelp) {
		set.SetOutput(stdout)
		set.Usage()
		return f, err
	} else if err != nil {
		return f, fmt.Errorf("%w (see -help)", err)
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("%q is not a flag (see -help)", set.Arg(0))
	}
	// Endpoints to try webhooks with are on this machine; others must not reach it through a gateway that they reach.
	o.GatewayConfig = func(_ int, cfg *gateway.Config) { cfg.WebhooksAllowPrivate = !o.Insecure }
	if f.archive != "" {
		url, err := archiveURL(f.archive)
		if err != nil {
			return f, err
		}
		o.NodeConfig = func(_ int, cfg *lognode.Config) { cfg.ArchiveURL = url }
	}
	if f.processes {
		o.Processes = &cluster.Processes{LogLevel: min(f.level, slog.LevelInfo)}
	}
	return f, nil
}

// archiveURL is the bucket of -archive.
func archiveURL(text string) (string, error) {
	if strings.Contains(text, "://") {
		return text, nil
	}
	dir, err := filepath.Abs(text)
	if err != nil {
		return "", err
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String(), nil
}

// stopTimeout bounds the drain after Ctrl-C.
const stopTimeout = 15 * time.Second

func run(args []string, stdout, stderr io.Writer) error {
	f, err := parse(args, stdout)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(f.options.Dir, 0o755); err != nil {
		return err
	}
	file, err := cluster.OpenLog(filepath.Join(f.options.Dir, "local.log"))
	if err != nil {
		return err
	}
	defer file.Close()
	var shown slog.LevelVar
	shown.Set(f.level)
	f.options.Log = slog.New(slog.NewMultiHandler(
		slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: &shown}),
		slog.NewTextHandler(file, &slog.HandlerOptions{Level: min(f.level, slog.LevelInfo)})))

	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	context.AfterFunc(ctx, release) // so that a second Ctrl-C ends the process at once
	starting, cancel := context.WithTimeout(ctx, f.start)
	defer cancel()
	c, err := cluster.Start(starting, f.options)
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted while starting")
	}
	if err != nil {
		return err
	}
	err = serve(ctx, f, c, stdout)
	shown.Set(max(f.level, slog.LevelError)) // that parts miss each other while all stop is no news
	stopping, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return errors.Join(err, c.Stop(stopping))
}

// serve returns when ctx ends, or with the error of a component that ended by itself in this process. A process of
// its own is started again, as an orchestrator would.
func serve(ctx context.Context, f flags, c *cluster.Cluster, stdout io.Writer) error {
	debug, err := metrics.Serve(f.debug, c.Metrics(), f.options.Log)
	if err != nil {
		return err
	}
	defer debug.Close()
	greet(stdout, f, c.URLs())
	again := restarts{log: f.options.Log, most: f.start}
	defer again.wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			fmt.Fprintln(stdout, "\nStopping; Ctrl-C again ends it at once.")
			return nil
		case err := <-c.Failed():
			var ended *cluster.Ended
			if !f.processes || !errors.As(err, &ended) {
				return err
			}
			fmt.Fprintln(stdout, endedNote(ended))
			m := c.MemberNamed(ended.Name)
			again.again(ctx, ended.Name, func(ctx context.Context) error {
				_ = m.Kill() // it has ended; this forgets that run
				return m.Start(ctx)
			})
		}
	}
}

func greet(w io.Writer, f flags, urls []string) {
	how := "in one process"
	if f.processes {
		how = "each in its own process"
	}
	fmt.Fprintf(w, "Splashdam runs: coordinators %d, log nodes %d, gateways %d, %s.\nData and logs are in %s. Ctrl-C stops it.\n\n",
		f.options.Coordinators, f.options.Nodes, f.options.Gateways, how, f.options.Dir)
	for i, url := range urls {
		fmt.Fprintf(w, "  gateway-%d  %s\n", i+1, url)
	}
	fmt.Fprintf(w, tryThis, urls[0])
}

// tryThis are the lines of README.md.
const tryThis = `
Publish, receive and ack a message:

  curl -d 'hello' -H 'Content-Type: text/plain' %[1]s/v1/topics/orders/messages

  curl -X POST '%[1]s/v1/topics/orders/groups/billing/receive?max=1&wait=5s' | tee message.json

  curl -d "$(grep -o '"receipt":"[^"]*' message.json | cut -d'"' -f4)" -H 'Content-Type: text/plain' %[1]s/v1/ack

`
