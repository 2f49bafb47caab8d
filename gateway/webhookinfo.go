package gateway

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/push"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

const (
	// recentAttempts and recentFor bound what the figures of a webhook are made from, by partition and by age.
	recentAttempts = 200
	recentFor      = time.Hour
	// lastErrors is how many failed attempts the description of a webhook shows.
	lastErrors = 5
	// attemptAskers is how many leaders are asked for attempts at once.
	attemptAskers = 16
)

func (g *Gateway) answerWebhook(c echo.Context, status int, t meta.Topic, w *meta.Webhook, gr *meta.Group, secret string) error {
	out := g.describeWebhook(c.Request().Context(), t, w, gr)
	out.Secret = secret
	c.Response().Header().Set("ETag", etag(w.Revision))
	return answerJSON(c, status, out)
}

// describeWebhook tells everything of a webhook but its secret.
func (g *Gateway) describeWebhook(ctx context.Context, t meta.Topic, w *meta.Webhook, gr *meta.Group) api.Webhook {
	about := g.describeGroup(ctx, t, *gr)
	out := api.Webhook{Name: w.Name, Topic: t.Name, Group: gr.Name, State: webhookState(w, gr), Created: w.Created,
		Secrets: []api.WebhookSecret{}, Settings: hideHeaders(w.Settings), GroupFigures: about.GroupFigures, Partial: about.Partial}
	if w.Disabled != nil {
		out.Reason = w.Disabled.Reason
	}
	now := g.clock.now()
	for _, s := range w.Secrets {
		if s.Until.IsZero() || now.Before(s.Until) {
			out.Secrets = append(out.Secrets, api.WebhookSecret{Fingerprint: mq.SecretFingerprint(s.Secret), Created: s.Created, Until: s.Until})
		}
	}
	attempts, partial := g.attempts(ctx, t, gr, recentAttempts)
	out.Partial = out.Partial || partial
	out.Recent = summarize(attempts, now)
	out.Gateways = g.webhookGateways(gr)
	return out
}

func webhookState(w *meta.Webhook, gr *meta.Group) string {
	if w.Disabled != nil && gr.Paused {
		return api.StateDisabled
	}
	return groupState(gr)
}

// summarize makes figures of attempts, the newest first.
func summarize(attempts []api.WebhookAttempt, now time.Time) (out api.WebhookRecent) {
	acked := 0
	for _, a := range attempts {
		if now.Sub(a.At) > recentFor {
			break
		}
		out.Attempts, out.Since = out.Attempts+1, a.At
		if a.Result == resultAcked {
			acked++
		} else if len(out.LastErrors) < lastErrors {
			out.LastErrors = append(out.LastErrors, a)
		}
	}
	if out.Attempts > 0 {
		rate := float64(acked) / float64(out.Attempts)
		out.SuccessRate = &rate
	}
	return out
}

// webhookGateways tells who serves which partitions, and what this gateway does for its own.
func (g *Gateway) webhookGateways(gr *meta.Group) []api.WebhookGateway {
	out := []api.WebhookGateway{}
	a, _ := g.view.Assignment(gr.ID)
	for _, m := range a.Members {
		one := api.WebhookGateway{Gateway: m.Name, Partitions: m.Partitions}
		if one.Partitions == nil {
			one.Partitions = []uint32{}
		}
		if s := g.push.State(gr.ID); m.Name == g.cfg.Name && s.Serving {
			one.Circuit, one.InFlight = "closed", &s.InFlight
			if s.Open {
				one.Circuit, one.Until = "open", s.Until.UTC()
			}
		}
		out = append(out, one)
	}
	return out
}

// The results of attempts.
const (
	resultAcked     = "acked"
	resultFailed    = "failed"
	resultPostponed = "postponed"
	resultDead      = "dead"
)

// attemptOf makes an attempt of a settlement's reason; false if the reason tells of none.
func attemptOf(id string, p uint32, offset uint64, at, retryAt int64, kind, reason string) (api.WebhookAttempt, bool) {
	r, ok := push.ParseRecord(reason)
	result := map[string]string{"ACKNOWLEDGED": resultAcked, "NACKED": resultFailed, "POSTPONED": resultPostponed, "DEAD": resultDead}[kind]
	if !ok || result == "" {
		return api.WebhookAttempt{}, false
	}
	return api.WebhookAttempt{ID: id, Partition: p, Offset: offset, At: timeOf(at), Attempt: r.Attempt, Result: result, Status: r.Status,
		Duration: api.Duration(r.Took), Gateway: r.Gateway, Detail: r.Detail, RetryAt: timeOf(retryAt)}, true
}

// attempts are the newest attempts of a webhook, the newest first, up to limit of each partition. partial says that
// some leaders did not answer.
func (g *Gateway) attempts(ctx context.Context, t meta.Topic, gr *meta.Group, limit int) (out []api.WebhookAttempt, partial bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	room := make(chan struct{}, attemptAskers)
	for _, p := range allPartitions(t) {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			found, err := g.attemptsIn(ctx, p, gr.ID, limit)
			mu.Lock()
			defer mu.Unlock()
			out = append(out, found...)
			partial = partial || err != nil && !mqerr.Is(err, mqerr.GroupNotFound)
		})
	}
	wg.Wait()
	slices.SortStableFunc(out, func(a, b api.WebhookAttempt) int { return b.At.Compare(a.At) })
	return out, partial
}

func (g *Gateway) attemptsIn(ctx context.Context, p mq.PartitionID, group mq.GroupID, limit int) ([]api.WebhookAttempt, error) {
	r, err := fromLeader(ctx, g, p, func(ctx context.Context, c mqpb.LogNodeClient) (*mqpb.SettlementsResponse, error) {
		return c.Settlements(ctx, &mqpb.SettlementsRequest{Partition: mqpb.FromPartition(p), Group: uint64(group), Limit: uint32(limit)})
	})
	if err != nil {
		return nil, err
	}
	out := make([]api.WebhookAttempt, 0, len(r.GetSettlements()))
	for _, s := range r.GetSettlements() {
		id := releasedID(p, s.GetOffset(), s.GetScheduled(), s.GetNumber()).String()
		if a, ok := attemptOf(id, p.Number, s.GetOffset(), s.GetAt(), s.GetRetryAt(), s.GetType(), s.GetReason()); ok {
			out = append(out, a)
		}
	}
	return out, nil
}

// handleAttempts answers the log of attempts: the newest of all, or those of one message.
func (g *Gateway) handleAttempts(c echo.Context) error {
	limit, err := queryLimit(c)
	if err != nil {
		return err
	}
	t, name, err := g.pathWebhook(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	_, gr, err := g.getWebhook(ctx, t, name)
	if err != nil {
		return err
	}
	out := api.WebhookAttempts{Attempts: []api.WebhookAttempt{}}
	if id := c.QueryParam("message"); id != "" {
		if out.Attempts, err = g.attemptsOf(ctx, t, gr.ID, id); err != nil {
			return err
		}
	} else {
		found, partial := g.attempts(ctx, t, &gr, limit)
		out.Attempts, out.Partial = append(out.Attempts, found...), partial
	}
	out.Attempts = out.Attempts[:min(limit, len(out.Attempts))]
	return answerJSON(c, http.StatusOK, out)
}

// attemptsOf reads the attempts of one message from its trace.
func (g *Gateway) attemptsOf(ctx context.Context, t meta.Topic, group mq.GroupID, text string) ([]api.WebhookAttempt, error) {
	id, err := mq.ParseMessageID(text)
	if err != nil || id.Partition.Topic != t.ID || id.Partition.Number >= t.Settings.Partitions {
		return nil, badParameter("query/message", "is no id of a message of topic %s: %.80q", t.Name, text)
	}
	ctx, cancel := context.WithTimeout(ctx, g.cfg.RequestTimeout)
	defer cancel()
	r, err := g.traceOf(ctx, id, false)
	if err != nil {
		return nil, err
	}
	offset := id.Number
	if id.Scheduled {
		offset = r.GetOffset()
	}
	out := []api.WebhookAttempt{}
	for _, e := range r.GetEvents() {
		if mq.GroupID(e.GetGroup()) != group {
			continue
		}
		if a, ok := attemptOf(text, id.Partition.Number, offset, e.GetAt(), e.GetUntil(), e.GetType(), e.GetReason()); ok {
			out = append(out, a)
		}
	}
	slices.SortStableFunc(out, func(a, b api.WebhookAttempt) int { return a.At.Compare(b.At) })
	return out, nil
}

// handleListWebhooks answers a topic's webhooks by name.
func (g *Gateway) handleListWebhooks(c echo.Context) error {
	topic, err := pathName(c, "topic")
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	t, err := g.knownTopic(ctx, topic)
	if err != nil {
		return err
	}
	hooks := g.webhooksOf(t.ID)
	groups := make([]meta.Group, len(hooks))
	for i := range hooks {
		if gr, ok := g.view.Group(t.ID, mq.WebhookGroup(hooks[i].Name)); ok {
			groups[i] = gr
		}
	}
	out := api.WebhookList{Webhooks: make([]api.WebhookSummary, 0, len(hooks))}
	for i, s := range g.summarizeGroups(ctx, t, groups) {
		out.Webhooks = append(out.Webhooks, api.WebhookSummary{Name: hooks[i].Name, URL: hooks[i].Settings.URL,
			State: webhookState(&hooks[i], &groups[i]), GroupFigures: s.GroupFigures, Partial: s.Partial})
	}
	return answerJSON(c, http.StatusOK, out)
}

// handleTestWebhook sends an event that is no message to the endpoint, and tells what came back.
func (g *Gateway) handleTestWebhook(c echo.Context) error {
	var in api.WebhookTest
	if err := g.readOptions(c, &in); err != nil {
		return err
	}
	m, err := testMessage(&in)
	if err != nil {
		return err
	}
	t, name, err := g.pathWebhook(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	w, gr, err := g.getWebhook(ctx, t, name)
	if err != nil {
		return err
	}
	g.awaitTime(ctx)
	h := g.hookOf(t, &gr, &w, nil)
	id := "test_" + g.requestPrefix + strconv.FormatUint(g.requests.Add(1), 10)
	trial := g.push.Try(ctx, h, id, m)
	out := api.WebhookTestAnswer{ID: id, OK: trial.OK, Status: trial.Status, Duration: api.Duration(trial.Took), SentAt: trial.Sent.UTC(),
		Gateway: g.cfg.Name, Detail: trial.Detail, RetryAfter: api.Duration(trial.RetryAfter), SignedWith: []string{}}
	for _, s := range w.Secrets {
		if s.Until.IsZero() || trial.Sent.Before(s.Until) {
			out.SignedWith = append(out.SignedWith, mq.SecretFingerprint(s.Secret))
		}
	}
	out.Hint = hintFor(trial.Status, trial.OK, out.SignedWith)
	return answerJSON(c, http.StatusOK, out)
}

// testMessage is what a test sends where the caller does not say.
func testMessage(in *api.WebhookTest) (*mq.Message, error) {
	m := &mq.Message{ContentType: "application/json", Value: []byte(`{"type":"splashdam.test"}`), Lane: mq.LaneNormal}
	if in.Value != nil {
		m.Value = []byte(*in.Value)
	}
	if in.ContentType != nil {
		if err := checkContentType(*in.ContentType); err != nil {
			return nil, invalid("/content_type", "%v", err)
		}
		m.ContentType = *in.ContentType
	}
	if in.Key != nil {
		m.Key, m.HasKey = []byte(*in.Key), true
	}
	for name, value := range in.Headers {
		x := mq.Header{Name: strings.ToLower(name), Value: value}
		if err := checkHeader(x); err != nil {
			return nil, invalid("/headers/"+name, "%s", err.Detail)
		}
		m.Headers = append(m.Headers, x)
	}
	slices.SortFunc(m.Headers, func(a, b mq.Header) int { return strings.Compare(a.Name, b.Name) })
	return m, nil
}

// hintFor says what an answer to a test may mean.
func hintFor(status int, ok bool, secrets []string) string {
	signed := strings.Join(secrets, " and ")
	switch {
	case ok:
		return ""
	case status == 0:
		return "No answer: check the URL, DNS, and that the endpoint answers within the timeout."
	case status == http.StatusBadRequest, status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "If the endpoint verifies signatures: it has to use the raw body, a clock that is right, and the secret whose SHA-256 begins with " + signed + "."
	case status == http.StatusGone:
		return "An endpoint that answers 410 to a message disables the webhook."
	case status >= 300 && status <= 399:
		return "Redirects are not followed: use the URL that it leads to."
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return "The path of the URL is not one that takes a POST."
	}
	return ""
}
