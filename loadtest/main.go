// Command loadtest puts load on a Splashdam cluster and measures it: go run ./loadtest MODE --help.
//
// It exits with 0 after a run, 1 when e2e --check found a broken promise or messages were left, 2 when the run could not be done
// (the command line, no server, the topic) and 3 when requests failed and --strict was given.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/splashdam/splashdam/loadtest/internal/load"
)

type commands struct {
	JSON   string `name:"json" help:"File to write the report to as JSON."`
	Strict bool   `help:"Exit with status 3 if any request failed."`

	Publish   load.Publish   `cmd:"" help:"Publish single messages or batches, in a closed or open loop."`
	NDJSON    load.NDJSON    `cmd:"" name:"ndjson" help:"Publish one message a line over one stream a connection."`
	Consume   load.Consume   `cmd:"" help:"Receive and acknowledge."`
	E2E       load.E2E       `cmd:"" name:"e2e" help:"Publish and consume, and check what was promised."`
	Wake      load.Wake      `cmd:"" help:"How soon a waiting long poll gets a message."`
	Rebalance load.Rebalance `cmd:"" help:"Members of a group come and go: what moves, and the gaps."`
	LongPolls load.LongPolls `cmd:"" name:"longpolls" help:"Hold long polls open that get nothing."`
	Webhook   load.Webhook   `cmd:"" help:"How soon and how many messages reach a webhook's endpoint."`
	Streams   load.Streams   `cmd:"" help:"How soon messages come by server-sent events, WebSockets or long polls."`
	Schedule  load.Schedule  `cmd:"" help:"Messages that are due at one moment: how late they come, and that none is early."`
	Seek      load.Seek      `cmd:"" help:"How long a seek to a time takes among many messages."`
}

// mode is what each command is.
type mode interface {
	Run(ctx context.Context) (*load.Report, error)
}

func (c *commands) mode(name string) mode {
	return map[string]mode{"publish": &c.Publish, "ndjson": &c.NDJSON, "consume": &c.Consume, "e2e": &c.E2E,
		"wake": &c.Wake, "rebalance": &c.Rebalance, "longpolls": &c.LongPolls, "streams": &c.Streams, "schedule": &c.Schedule, "webhook": &c.Webhook, "seek": &c.Seek}[name]
}

func main() {
	var c commands
	parser, err := kong.New(&c, kong.Name("loadtest"), kong.Description("Load on a Splashdam cluster, measured and checked."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadtest:", err)
		os.Exit(2)
	}
	parsed, err := parser.Parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadtest:", err)
		os.Exit(2)
	}
	// The first signal ends the run and still reports; a second one ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	status, err := run(ctx, &c, parsed.Command())
	if err != nil {
		fmt.Fprintln(os.Stderr, "loadtest:", err)
	}
	os.Exit(status)
}

func run(ctx context.Context, c *commands, name string) (int, error) {
	report, err := c.mode(name).Run(ctx)
	if report == nil {
		return 2, err
	}
	if writeErr := report.WriteTable(os.Stdout); writeErr != nil {
		return 2, writeErr
	}
	if c.JSON != "" {
		if writeErr := writeJSON(c.JSON, report); writeErr != nil {
			return 2, writeErr
		}
	}
	switch {
	case c.E2E.Check && report.Check != nil && (report.Check.Violations() > 0 || report.Incomplete):
		return 1, err
	case err != nil:
		return 2, err
	case c.Strict && len(report.Failed) > 0:
		return 3, nil
	}
	return 0, nil
}

func writeJSON(path string, report *load.Report) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
