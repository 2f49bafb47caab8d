package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// webhookFlags are the settings that are named when a webhook is made, and when it is changed.
type webhookFlags struct {
	Format       *string           `enum:"standard,cloudevents" help:"Form of requests: ${enum}."`
	Header       map[string]string `mapsep:"none" help:"A header of every request, name=value; may be repeated."`
	Ordering     *string           `enum:"none,key" help:"Order: ${enum}."`
	MaxInFlight  *int              `help:"Requests under way at once (64)."`
	Rate         *float64          `help:"Requests a second; 0: no limit."`
	Attempt      *api.Duration     `name:"attempt-timeout" help:"How long the endpoint has for an answer (15s)."`
	Schedule     []api.Duration    `help:"Waits after failed attempts: 5s,1m,30m."`
	Initial      *api.Duration     `name:"retry-initial" help:"Instead: the first wait, which grows."`
	Multiplier   *float64          `name:"retry-multiplier" help:"Growth of the wait."`
	Max          *api.Duration     `name:"retry-max" help:"Longest wait."`
	Jitter       *float64          `name:"retry-jitter" help:"Spread of the waits, 0 to 1 (0.2)."`
	MaxAttempts  *int              `help:"Attempts before a message is dead; 0: no limit."`
	Failures     *int              `name:"circuit-failures" help:"Failures in a row that open the circuit; 0: never."`
	Open         *api.Duration     `name:"circuit-open" help:"How long it stays open at first (5s)."`
	MaxOpen      *api.Duration     `name:"circuit-max-open" help:"How long it stays open at most (5m)."`
	DeadTopic    *string           `name:"dead-letter-topic" help:"Publish dead letters to this topic too; empty: nowhere."`
	AllowPrivate *bool             `negatable:"" help:"Let it reach loopback and private addresses."`
}

// input is what the flags name, without a URL.
func (w *webhookFlags) input() api.WebhookInput {
	in := api.WebhookInput{Format: w.Format, Headers: w.Header, Ordering: w.Ordering, MaxInFlight: w.MaxInFlight,
		Rate: w.Rate, Timeout: w.Attempt, AllowPrivate: w.AllowPrivate, DeadLetterTopic: w.DeadTopic}
	if len(w.Schedule) > 0 || w.Initial != nil || w.Multiplier != nil || w.Max != nil || w.Jitter != nil || w.MaxAttempts != nil {
		in.Retry = &api.WebhookRetryInput{Schedule: w.Schedule, Initial: w.Initial, Multiplier: w.Multiplier, Max: w.Max, Jitter: w.Jitter,
			MaxAttempts: w.MaxAttempts}
	}
	if w.Failures != nil || w.Open != nil || w.MaxOpen != nil {
		in.Circuit = &api.WebhookCircuitInput{Failures: w.Failures, Open: w.Open, MaxOpen: w.MaxOpen}
	}
	return in
}

type webhookCreate struct {
	webhookName  `embed:""`
	URL          string  `arg:"" help:"Where to send: https://… or http://…"`
	Secret       *string `help:"whsec_ and base64; a random one if left out."`
	Start        string  `help:"Where it begins: latest (default), earliest, a time (RFC 3339), or how long ago: 2h."`
	webhookFlags `embed:""`
}

func (w *webhookCreate) input() (api.WebhookInput, error) {
	in := w.webhookFlags.input()
	in.URL, in.Secret = w.URL, w.Secret
	var err error
	in.Start, err = startInput(w.Start)
	return in, err
}

func (w *webhookCreate) Run(s *session) error {
	in, err := w.input()
	if err != nil {
		return err
	}
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.CreateWebhook(ctx, w.Topic, w.Webhook, in)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderWebhook(&out, s.width, s.painter()) })
}

type webhookUpdate struct {
	webhookName  `embed:""`
	URL          string   `name:"url" help:"Where to send. Another server needs --header again."`
	NoHeader     []string `help:"A header that is sent no more; may be repeated."`
	webhookFlags `embed:""`
	DryRun       bool `help:"Say what would change and leave it."`
}

func (w *webhookUpdate) Run(s *session) error {
	want := client.WebhookChange{WebhookInput: w.input(), DropHeaders: w.NoHeader}
	want.URL = w.URL
	if reflect.DeepEqual(want, client.WebhookChange{}) {
		return errNothingNamed
	}
	for name := range w.Header {
		if slices.ContainsFunc(w.NoHeader, func(n string) bool { return strings.EqualFold(n, name) }) {
			return wrongUsage("--header and --no-header both name %s", name)
		}
		if w.Header[name] == api.HiddenValue {
			return wrongUsage("--header %s=%s: that is what is shown in the value's stead. A header that is not named stays as it is", name, api.HiddenValue)
		}
	}
	return w.sayHeadersAgain(change(s, w.DryRun,
		func(ctx context.Context) (api.ConfigChange, error) {
			return s.client.PreviewWebhook(ctx, w.Topic, w.Webhook, want)
		},
		func(ctx context.Context) (api.Webhook, error) {
			return s.client.UpdateWebhook(ctx, w.Topic, w.Webhook, want)
		},
		func(out *api.Webhook) string { return renderWebhook(out, s.width, s.painter()) }))
}

// sayHeadersAgain tells with which flags an update to another server gets through: the headers that it refuses are those that it
// was not given.
func (w *webhookUpdate) sayHeadersAgain(err error) error {
	var e *client.Error
	kept := func(f mqerr.Field) bool {
		name, ok := strings.CutPrefix(f.Pointer, "/headers/")
		_, given := w.Header[name]
		return ok && !given
	}
	if !errors.As(err, &e) || !slices.ContainsFunc(e.Fields, kept) {
		return err
	}
	told := *e
	told.Title = "Give the values again with --header NAME=VALUE, or leave headers out with --no-header NAME."
	return &told
}

// settingRows are the settings as a table shows them; what is as it mostly is is left out.
func settingRows(set *mq.WebhookSettings) [][2]string {
	rows := [][2]string{{"retries", retryText(&set.Retry)}, {"limits", limitText(set)}, {"circuit", circuitText(&set.Circuit)}}
	if len(set.Headers) > 0 {
		rows = append(rows, [2]string{"headers", strings.Join(slices.Sorted(maps.Keys(set.Headers)), ", ")})
	}
	if set.Ordering == mq.OrderingKey {
		rows = append(rows, [2]string{"order", "by key"})
	}
	if set.DeadLetterTopic != "" {
		rows = append(rows, [2]string{"dead letters", "published to " + set.DeadLetterTopic + " too"})
	}
	if set.AllowPrivate {
		rows = append(rows, [2]string{"reaches", "loopback and private addresses too"})
	}
	return rows
}

func circuitText(c *mq.WebhookCircuit) string {
	if c.Failures == 0 {
		return "never opens"
	}
	return fmt.Sprintf("opens after %d failures in a row, for %s to %s", c.Failures, c.Open, c.MaxOpen)
}

func retryText(r *mq.WebhookRetry) string {
	attempts := strconv.Itoa(r.MaxAttempts) + " attempts"
	if r.MaxAttempts == 0 {
		attempts = "no limit of attempts"
	}
	if len(r.Schedule) == 0 {
		return fmt.Sprintf("%s, %s x %g, at most %s", attempts, r.Initial, r.Multiplier, r.Max)
	}
	waits := make([]string, len(r.Schedule))
	for i, d := range r.Schedule {
		waits[i] = d.String()
	}
	return attempts + ", after " + strings.Join(waits, ", ")
}

func limitText(set *mq.WebhookSettings) string {
	text := fmt.Sprintf("%d in flight, %s an attempt", set.MaxInFlight, set.Timeout)
	if set.Rate > 0 {
		text += fmt.Sprintf(", %g a second", set.Rate)
	}
	return text
}
