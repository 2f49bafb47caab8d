package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"

	"github.com/splashdam/splashdam/shared/client"
)

// The exit statuses, which scripts may rely on.
const (
	exitOK          = 0
	exitRefused     = 1   // the server answered with an error, or a part of the work failed
	exitUsage       = 2   // the command line is wrong
	exitUnavailable = 3   // no server was reached, or it said to try again later
	exitUnknown     = 4   // a publish may or may not have been stored
	exitInterrupted = 130 // a signal ended it
)

const description = `The command line of Splashdam.

Exit status: 0 done; 1 refused by the server; 2 wrong usage; 3 no server was reached, or it asks to try
again later; 4 the outcome is unknown; 130 interrupted.`

// cli is the command line as kong reads it.
type cli struct {
	Server  []string      `env:"SPLASHDAM_SERVER" default:"http://127.0.0.1:8080" help:"Base URLs of gateways, tried in turn."`
	Profile string        `env:"SPLASHDAM_PROFILE" placeholder:"NAME" help:"Profile of the configuration file; default: the one that it names."`
	Output  string        `short:"o" enum:"table,json,yaml" default:"table" help:"Form of the output: ${enum}."`
	Wide    bool          `short:"w" help:"Don't cut table cells to fit 80 columns."`
	NoColor bool          `name:"no-color" env:"NO_COLOR" help:"No colours on a terminal either."`
	Timeout time.Duration `default:"30s" help:"How long a call may take, with all repetitions."`

	Topic      topicCommands     `cmd:"" help:"Make, change, show and delete topics."`
	Publish    publishCmd        `cmd:"" help:"Publish messages from stdin or files."`
	Consume    consumeCmd        `cmd:"" help:"Consume with a group, or read without one."`
	Peek       peekCmd           `cmd:"" help:"Show some messages; nothing is leased."`
	Message    messageCmd        `cmd:"" help:"Show one message with its value."`
	Group      groupCommands     `cmd:"" help:"Make, change, show and delete groups."`
	Dead       deadCommands      `cmd:"" help:"Dead letters of a group."`
	Seek       seekCmd           `cmd:"" help:"Put a group to another place."`
	Webhook    webhookCommands   `cmd:"" help:"Make, watch, test and delete webhooks."`
	Listen     listenCmd         `cmd:"" help:"Receive, verify and print what a webhook sends, to try it out."`
	Scheduled  scheduledCommands `cmd:"" help:"Messages that wait for their time: list, cancel, move."`
	Trace      traceCmd          `cmd:"" help:"Tell a message's life as a timeline."`
	Explain    explainCmd        `cmd:"" help:"Say why a group does not get a message now."`
	Ack        ackCmd            `cmd:"" help:"Acknowledge deliveries by their receipts."`
	Nack       nackCmd           `cmd:"" help:"Give deliveries back as failed attempts."`
	Reject     rejectCmd         `cmd:"" help:"Make messages dead for their group at once."`
	Extend     extendCmd         `cmd:"" help:"Give deliveries a new lease, counted from now."`
	Cluster    clusterCommands   `cmd:"" help:"Show the cluster; drain nodes, move leaders."`
	Bench      benchCmd          `cmd:"" help:"Publish for a while and say how fast that was."`
	Completion completionCmd     `cmd:"" help:"Print a script that completes commands and flags in a shell."`
	Version    versionCmd        `cmd:"" help:"Show the version of this program."`
}

// gatewayPatience is how long a gateway itself waits for a leader before it answers 503. No repetition begins so late that
// the time of the whole call cuts it off: what was surely not stored would end as an unknown outcome.
const gatewayPatience = 11 * time.Second

// session is what commands work with.
type session struct {
	ctx     context.Context // ended by a signal
	client  *client.Client
	in      io.Reader
	out     io.Writer
	err     io.Writer
	notes   *notes // of what passes, on err
	format  string
	width   int // 0: no bound
	colours bool
	timeout time.Duration
	shown   bool // something was: the next YAML document needs a mark before it
}

// call gives a context for one ordinary call.
func (s *session) call() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	stop := s.notes.slow(slowAnswer)
	return ctx, func() {
		stop()
		cancel()
	}
}

// wait passes the time, or less when a signal comes.
func (s *session) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
	}
}

// printed is the end of kong's own output (help), which asks for an exit.
type printed int

// execute runs one command line and returns the exit status.
func execute(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) (status int) {
	defer func() {
		// kong asks for an exit in the middle of parsing, when it has printed the help.
		if code, ok := recover().(printed); ok {
			status = int(code)
		}
	}()
	var c cli
	completes := len(args) > 0 && args[0] == completeWord
	var options []kong.Option
	if !completes {
		habits, err := readProfile(namedProfile(args))
		if err != nil {
			return usage(errOut, err)
		}
		options = append(options, kong.Resolvers(kong.ResolverFunc(habits.resolve)))
	}
	parser, err := newParser(&c, out, errOut, options...)
	if err != nil {
		return usage(errOut, err)
	}
	if completes {
		complete(out, parser.Model.Node, args[1:])
		return exitOK
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return usage(errOut, err)
	}
	if err := refuseEmpty(parsed); err != nil {
		return usage(errOut, err)
	}
	s, err := newSession(ctx, &c, in, out, errOut)
	if err != nil {
		return usage(errOut, err)
	}
	defer s.client.Close()
	if err := parsed.Run(s); err != nil {
		return report(errOut, err, ctx.Err() != nil)
	}
	return exitOK
}

func newParser(c *cli, out, errOut io.Writer, more ...kong.Option) (*kong.Kong, error) {
	return kong.New(c, append(more, kong.Name("splashdam"), kong.Description(description), kong.Writers(out, errOut),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Exit(func(code int) { panic(printed(code)) }),
		kong.KindMapper(reflect.Float64, kong.MapperFunc(decodeNumber)), kong.TypeMapper(reflect.TypeFor[time.Time](), kong.MapperFunc(decodeTime)),
		kong.TypeMapper(reflect.TypeFor[past](), kong.MapperFunc(decodePast)))...)
}

// decodeNumber reads a flag that is a number. NaN and Inf, which Go reads as numbers, JSON can't say.
func decodeNumber(c *kong.DecodeContext, target reflect.Value) error {
	t, err := c.Scan.PopValue("number")
	if err != nil {
		return err
	}
	v, err := strconv.ParseFloat(t.String(), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("must be a number like 0.5, not %q", t.String())
	}
	target.SetFloat(v)
	return nil
}

// decodeTime reads a flag that is a time: what is wrong with it is said with an example, not with Go's layout.
func decodeTime(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("time", &text); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return badTime(text)
	}
	target.Set(reflect.ValueOf(at))
	return nil
}

func badTime(text string) error {
	return wrongUsage("a time looks like 2026-01-31T12:00:00Z, not %q", text)
}

func usage(w io.Writer, err error) int {
	fmt.Fprintf(w, "%s\n  Run splashdam --help, or --help after a command.\n", fault(err))
	return exitUsage
}

func newSession(ctx context.Context, c *cli, in io.Reader, out, errOut io.Writer) (*session, error) {
	errOut = &oneByOne{w: errOut}
	told := &notes{w: errOut, at: map[string]time.Time{}}
	sdk, err := client.New(client.Options{Servers: c.Server, UserAgent: "splashdam-cli", Log: slog.New(told),
		Retry: client.Retry{Max: time.Second, Elapsed: max(c.Timeout-gatewayPatience, c.Timeout/3)}})
	if err != nil {
		return nil, err
	}
	s := &session{ctx: ctx, client: sdk, in: in, out: out, err: errOut, notes: told, format: c.Output, width: 80, timeout: c.Timeout}
	if c.Wide {
		s.width = 0
	}
	if f, ok := out.(*os.File); ok && !c.NoColor {
		s.colours = isatty.IsTerminal(f.Fd())
	}
	return s, nil
}

// versionCmd needs no server.
type versionCmd struct{}

func (versionCmd) Run(s *session) error {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				version += " " + setting.Value
			}
		}
	}
	return s.show(map[string]string{"version": version}, func() string { return version + "\n" })
}
