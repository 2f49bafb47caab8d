package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

type webhookCommands struct {
	List     webhookList     `cmd:"" help:"List the webhooks of a topic."`
	Describe webhookDescribe `cmd:"" help:"Show a webhook: state, lag, success rate, last errors."`
	Create   webhookCreate   `cmd:"" help:"Make a webhook; shows its secret, once."`
	Update   webhookUpdate   `cmd:"" help:"Change the settings that are named; secret and position stay."`
	Test     webhookTest     `cmd:"" help:"Send a test event now and show what came back."`
	Attempts webhookAttempts `cmd:"" help:"Show the newest attempts, or those of one message."`
	Pause    webhookPause    `cmd:"" help:"Stop sending."`
	Resume   webhookResume   `cmd:"" help:"Go on after a pause, or after the endpoint answered 410."`
	Replay   webhookReplay   `cmd:"" help:"Send everything since a time again."`
	Rotate   webhookRotate   `cmd:"" name:"rotate-secret" help:"Make another secret; for a while both sign."`
	Delete   webhookDelete   `cmd:"" help:"Delete a webhook with its position and dead letters."`
}

// webhookName is the two arguments that name a webhook.
type webhookName struct {
	Topic   string `arg:"" help:"Topic."`
	Webhook string `arg:"" help:"Webhook."`
}

type webhookDescribe struct {
	webhookName `embed:""`
}

func (w *webhookDescribe) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.Webhook(ctx, w.Topic, w.Webhook)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderWebhook(&out, s.width, s.painter()) })
}

type webhookList struct {
	Topic string `arg:"" help:"Topic."`
}

func (w *webhookList) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.Webhooks(ctx, w.Topic)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderWebhooks(out.Webhooks, s.width, s.painter()) })
}

type webhookTest struct {
	webhookName `embed:""`
	Value       *string           `help:"The body to send."`
	ContentType *string           `help:"Its content type."`
	Key         *string           `help:"The key of the event."`
	Header      map[string]string `short:"H" mapsep:"none" help:"Headers of the event, NAME=VALUE."`
}

func (w *webhookTest) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.TestWebhook(ctx, w.Topic, w.Webhook, api.WebhookTest{Value: w.Value, ContentType: w.ContentType, Key: w.Key, Headers: w.Header})
	if err != nil {
		return err
	}
	if err := s.show(out, func() string { return renderWebhookTest(&out, s.width, s.painter()) }); err != nil || out.OK {
		return err
	}
	return errTestFailed
}

// errTestFailed makes the exit status of a test whose endpoint did not take the event.
var errTestFailed = fmt.Errorf("the endpoint did not take the test event")

type webhookAttempts struct {
	webhookName `embed:""`
	Message     string `short:"m" help:"Only those of the message with this id, in order."`
	Limit       int    `short:"n" default:"20" help:"Attempts at most."`
}

func (w *webhookAttempts) Run(s *session) error {
	if err := goodLimit(w.Limit); err != nil {
		return err
	}
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.WebhookAttempts(ctx, w.Topic, w.Webhook, w.Message, w.Limit)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderAttempts(&out, s.width, s.painter()) })
}

type webhookPause struct {
	webhookName `embed:""`
}

func (w *webhookPause) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.PauseWebhook(ctx, w.Topic, w.Webhook)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return fmt.Sprintf("paused  webhook %s of topic %s\n", w.Webhook, w.Topic) })
}

type webhookResume struct {
	webhookName `embed:""`
}

func (w *webhookResume) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.ResumeWebhook(ctx, w.Topic, w.Webhook)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return fmt.Sprintf("resumed  webhook %s of topic %s\n", w.Webhook, w.Topic) })
}

type webhookReplay struct {
	webhookName `embed:""`
	Since       string `required:"" help:"A time (RFC 3339), or how long ago it is (2h)."`
	DryRun      bool   `help:"Say what would be sent again."`
}

func (w *webhookReplay) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.ReplayWebhook(ctx, w.Topic, w.Webhook, w.Since, w.DryRun)
	if err != nil {
		return err
	}
	return s.showSeek(&out)
}

type webhookRotate struct {
	webhookName `embed:""`
	Secret      *string       `help:"whsec_ and base64; a random one if left out."`
	Overlap     *api.Duration `help:"How long the old one goes on signing (24h)."`
	DryRun      bool          `help:"Say until when the old one would sign and leave it."`
}

func (w *webhookRotate) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	rotate := s.client.RotateSecret
	if w.DryRun {
		rotate = s.client.PreviewRotation
	}
	out, err := rotate(ctx, w.Topic, w.Webhook, api.WebhookRotation{Secret: w.Secret, Overlap: w.Overlap})
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderRotation(&out) })
}

func renderRotation(w *api.Webhook) string {
	text := w.Secret + "\n"
	if w.DryRun {
		text = "the secret would be another\n"
	}
	for _, old := range w.Secrets {
		if !old.Until.IsZero() {
			text += fmt.Sprintf("the old one (%s) signs until %s too\n", old.Fingerprint, stamp(old.Until))
		}
	}
	return text
}

type webhookDelete struct {
	webhookName `embed:""`
	DryRun      bool `help:"Say what would be removed and leave it."`
}

func (w *webhookDelete) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.DeleteWebhook(ctx, w.Topic, w.Webhook, w.DryRun)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderDeletion(&out, s.width) })
}

func renderWebhooks(list []api.WebhookSummary, width int, paint painter) string {
	if len(list) == 0 {
		return "no webhooks\n"
	}
	t := table{headers: []string{"WEBHOOK", "STATE", ">LAG", ">IN FLIGHT", ">WAITING", ">DEAD", ">OLDEST", "URL"}}
	some := false
	for _, w := range list {
		t.rows = append(t.rows, []string{w.Name, w.State, count(w.Lag) + partial(w.Partial), count(w.InFlight), count(w.Waiting), count(w.Dead),
			age(w.OldestAge), w.URL})
		some = some || w.Partial
	}
	return t.render(width, paint) + partialNote(some)
}

func renderWebhook(w *api.Webhook, width int, paint painter) string {
	set := &w.Settings
	rows := [][2]string{{"webhook", w.Name + " of topic " + w.Topic}, {"url", set.URL}, {"state", paint(styleOf(w.State), w.State)}}
	if w.Reason != "" {
		rows = append(rows, [2]string{"reason", oneLine(w.Reason)})
	}
	if w.Secret != "" {
		rows = append(rows, [2]string{"secret", w.Secret + "   (not shown again)"})
	}
	rows = append(rows,
		[2]string{"lag", fmt.Sprintf("%d%s (%d ready, %d in flight, %d waiting)", w.Lag, partial(w.Partial), w.Ready, w.InFlight, w.Waiting)},
		[2]string{"dead", count(w.Dead)}, [2]string{"oldest", age(w.OldestAge)}, [2]string{"recent", recentText(&w.Recent)},
		[2]string{"format", set.Format})
	rows = append(rows, settingRows(set)...)
	for _, k := range w.Secrets {
		text := k.Fingerprint
		if !k.Until.IsZero() {
			text += " until " + stamp(k.Until)
		}
		rows = append(rows, [2]string{"signs with", text})
	}
	for _, g := range w.Gateways {
		text := fmt.Sprintf("%s: %d partitions", g.Gateway, len(g.Partitions))
		if g.Circuit != "" {
			text += ", circuit " + g.Circuit
		}
		if !g.Until.IsZero() {
			text += " until " + stamp(g.Until)
		}
		rows = append(rows, [2]string{"served by", text})
	}
	text := pairs(rows, width) + partialNote(w.Partial)
	if len(w.Recent.LastErrors) > 0 {
		text += "\n" + attemptTable(w.Recent.LastErrors, width, paint)
	}
	return text
}

func recentText(r *api.WebhookRecent) string {
	if r.SuccessRate == nil {
		return "no attempts within an hour"
	}
	return fmt.Sprintf("%.1f %% of %d attempts taken, since %s", 100**r.SuccessRate, r.Attempts, stamp(r.Since))
}

func renderAttempts(a *api.WebhookAttempts, width int, paint painter) string {
	if len(a.Attempts) == 0 {
		return "no attempts\n" + partialNote(a.Partial)
	}
	return attemptTable(a.Attempts, width, paint) + partialNote(a.Partial)
}

func attemptTable(list []api.WebhookAttempt, width int, paint painter) string {
	t := table{headers: []string{"AT (UTC)", "ID", ">TRY", "RESULT", ">STATUS", ">TOOK", "DETAIL"}}
	for _, a := range list {
		status := "-"
		if a.Status != 0 {
			status = strconv.Itoa(a.Status)
		}
		t.rows = append(t.rows, []string{a.At.UTC().Format("01-02 15:04:05.000"), a.ID, strconv.FormatUint(uint64(a.Attempt), 10), a.Result, status,
			span(time.Duration(a.Duration)), orDash(oneLine(a.Detail))})
	}
	return t.render(width, paint)
}

func renderWebhookTest(a *api.WebhookTestAnswer, width int, paint painter) string {
	verdict := paint(styleGood, "taken")
	if !a.OK {
		verdict = paint(styleBad, "not taken")
	}
	status := "no answer"
	if a.Status != 0 {
		status = strconv.Itoa(a.Status)
	}
	rows := [][2]string{{"result", verdict}, {"status", status}, {"took", span(time.Duration(a.Duration))}, {"webhook-id", a.ID},
		{"sent by", a.Gateway}, {"signed with", strings.Join(a.SignedWith, ", ")}}
	if a.Detail != "" {
		rows = append(rows, [2]string{"detail", oneLine(a.Detail)})
	}
	if a.Hint != "" {
		rows = append(rows, [2]string{"hint", a.Hint})
	}
	return pairs(rows, width)
}
