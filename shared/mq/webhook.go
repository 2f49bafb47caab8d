package mq

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// The forms in which a webhook sends a message.
const (
	WebhookStandard    = "standard"    // Standard Webhooks: webhook-id, webhook-timestamp, webhook-signature
	WebhookCloudEvents = "cloudevents" // the same, and the ce-* headers of CloudEvents' binary mode
)

// Bounds of webhooks.
const (
	MaxWebhookTimeout  = 2 * time.Minute
	MaxWebhookInFlight = 1000
	MaxWebhookURL      = 2048
	MaxWebhookHeaders  = 32
	MaxWebhookRetries  = 64 // delays in a schedule
	// MaxWebhooks is how many webhooks a topic has at most.
	MaxWebhooks = 100
	// MaxSecretOverlap bounds how long the old secret of a rotation goes on signing.
	MaxSecretOverlap = 30 * 24 * time.Hour
)

// webhookGroups is how the names of webhooks' groups begin. Users can't make such groups.
const webhookGroups = "webhook."

// MaxWebhookName is the longest name of a webhook, in bytes: its group's name has to be one, too.
const MaxWebhookName = MaxNameLength - len(webhookGroups)

// WebhookGroup is the name of the group behind a webhook.
func WebhookGroup(webhook string) string { return webhookGroups + webhook }

// GroupWebhook is the webhook that a group's name stands for; false for the groups of users.
func GroupWebhook(group string) (webhook string, ok bool) {
	return strings.CutPrefix(group, webhookGroups)
}

// WebhookSettings are what the owner of a webhook chose; see DefaultWebhookSettings.
type WebhookSettings struct {
	URL    string `json:"url"`
	Format string `json:"format"`
	// Headers are sent with every request, beside those that this program sets itself.
	Headers map[string]string `json:"headers,omitempty"`
	Start   Start             `json:"start"` // counts when the webhook is made
	// Ordering as of groups: with key, a message waits for those of its key before it.
	Ordering string `json:"ordering"`
	// MaxInFlight and Rate (requests a second, 0 for no limit) are divided among gateways by the partitions
	// that each serves; a gateway that serves any has at least one request in flight.
	MaxInFlight int            `json:"max_in_flight"`
	Rate        float64        `json:"rate"`
	Timeout     Duration       `json:"timeout"` // of one attempt, from the dialling to the end of the answer
	Retry       WebhookRetry   `json:"retry"`
	Circuit     WebhookCircuit `json:"circuit"`
	// DeadLetterTopic as of groups.
	DeadLetterTopic string `json:"dead_letter_topic,omitempty"`
	// AllowPrivate lets the webhook reach loopback and private addresses, where the gateway allows that too.
	AllowPrivate bool `json:"allow_private"`
}

// WebhookRetry says how long a failed message waits: the delays of Schedule one after the other (the last one
// again and again), or without one Initial x Multiplier^(attempt-1), at most Max. Either is spread by Jitter.
type WebhookRetry struct {
	Schedule    []Duration `json:"schedule,omitempty"`
	Initial     Duration   `json:"initial"`
	Multiplier  float64    `json:"multiplier"`
	Max         Duration   `json:"max"`
	Jitter      float64    `json:"jitter"`
	MaxAttempts int        `json:"max_attempts"` // 0: no limit
}

// WebhookCircuit says when to leave an endpoint alone: after Failures attempts in a row that say that it is not
// well, for Open, and each time that it still is not twice as long, up to MaxOpen.
type WebhookCircuit struct {
	Failures int      `json:"failures"` // 0: never
	Open     Duration `json:"open"`
	MaxOpen  Duration `json:"max_open"`
}

// DefaultWebhookSettings are used where an owner says nothing; there is no default URL.
func DefaultWebhookSettings() WebhookSettings {
	minutes := func(n time.Duration) Duration { return Duration(n * time.Minute) }
	schedule := []Duration{Duration(5 * time.Second), minutes(1), minutes(5), minutes(30), minutes(120), minutes(360), minutes(720)}
	return WebhookSettings{
		Format:      WebhookStandard,
		Start:       Start{At: "latest"},
		Ordering:    "none",
		MaxInFlight: 64,
		Timeout:     Duration(15 * time.Second),
		Retry: WebhookRetry{Schedule: schedule, Initial: Duration(5 * time.Second), Multiplier: 3, Max: minutes(720), Jitter: 0.2,
			MaxAttempts: len(schedule) + 1},
		Circuit: WebhookCircuit{Failures: 20, Open: Duration(5 * time.Second), MaxOpen: minutes(5)},
	}
}

// Validate reports every bad field at once (errors.Join of FieldError), pointers beginning with at.
func (w *WebhookSettings) Validate(at string) error {
	var c checks
	if err := checkWebhookURL(w.URL); err != nil {
		c = append(c, FieldError{at + "/url", err.Error()})
	}
	c.want(w.Format == WebhookStandard || w.Format == WebhookCloudEvents, at+"/format", "must be standard or cloudevents")
	c.want(len(w.Headers) <= MaxWebhookHeaders, at+"/headers", "must be at most %d", MaxWebhookHeaders)
	for name, value := range w.Headers {
		if detail := badWebhookHeader(name, value); detail != "" {
			c = append(c, FieldError{at + "/headers/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name), detail})
		}
	}
	c.want(between(w.MaxInFlight, 1, MaxWebhookInFlight), at+"/max_in_flight", "must be 1 to %d", MaxWebhookInFlight)
	c.want(w.Rate == 0 || w.Rate >= 0.001 && w.Rate <= 1e6, at+"/rate", "must be 0.001 to 1000000 a second, or 0 for no limit")
	c.want(between(time.Duration(w.Timeout), 100*time.Millisecond, MaxWebhookTimeout), at+"/timeout", "must be 100ms to %s", Duration(MaxWebhookTimeout))
	w.Retry.check(&c, at+"/retry")
	w.Circuit.check(&c, at+"/circuit")
	g := w.GroupSettings()
	if err := g.Validate(at); err != nil && len(c) == 0 {
		c = append(c, err) // start and ordering; all else is checked above
	}
	return errors.Join(c...)
}

func (r *WebhookRetry) check(c *checks, at string) {
	c.want(len(r.Schedule) <= MaxWebhookRetries, at+"/schedule", "must be at most %d delays", MaxWebhookRetries)
	for i, d := range r.Schedule {
		c.want(between(time.Duration(d), 0, MaxBackoff), fmt.Sprintf("%s/schedule/%d", at, i), "must be 0s to %s", Duration(MaxBackoff))
	}
	c.want(between(time.Duration(r.Initial), 0, MaxBackoff), at+"/initial", "must be 0s to %s", Duration(MaxBackoff))
	c.want(between(time.Duration(r.Max), time.Duration(r.Initial), MaxBackoff), at+"/max", "must be initial to %s", Duration(MaxBackoff))
	c.want(r.Multiplier >= 1 && r.Multiplier <= 100, at+"/multiplier", "must be 1 to 100")
	c.want(r.Jitter >= 0 && r.Jitter <= 1, at+"/jitter", "must be 0 to 1")
	c.want(between(r.MaxAttempts, 0, 10_000), at+"/max_attempts", "must be 1 to 10000, or 0 for no limit")
}

func (x *WebhookCircuit) check(c *checks, at string) {
	c.want(between(x.Failures, 0, 100_000), at+"/failures", "must be 1 to 100000, or 0 for no circuit breaker")
	c.want(between(time.Duration(x.Open), 100*time.Millisecond, time.Hour), at+"/open", "must be 100ms to 1h")
	c.want(between(time.Duration(x.MaxOpen), time.Duration(x.Open), 24*time.Hour), at+"/max_open", "must be open to 24h")
}

func checkWebhookURL(text string) error {
	if text == "" {
		return errors.New("must be given")
	}
	if len(text) > MaxWebhookURL {
		return fmt.Errorf("has at most %d bytes", MaxWebhookURL)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must begin with https:// or http://")
	case u.Hostname() == "":
		return errors.New("must name a host")
	case u.User != nil:
		return errors.New("must hold no user and password; put them into headers")
	case u.Fragment != "":
		return errors.New("must have no fragment (#)")
	}
	if n, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || n < 1 || n > 65535) {
		return fmt.Errorf("has a port from 1 to 65535, not %.20s", u.Port())
	}
	return checkWebhookHost(u.Hostname())
}

// checkWebhookHost refuses numbers that some resolvers take for an IPv4 address and others for a name (2130706433,
// 0x7f.1, 127.1): no name ends in a number, and who means an address can write it as one.
func checkWebhookHost(host string) error {
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	notDigit := func(r rune) bool { return !unicode.IsDigit(r) }
	switch {
	case len(host) > 253:
		return errors.New("names a host of at most 253 bytes")
	case last == "":
		return errors.New("must name a host")
	case strings.IndexFunc(last, notDigit) < 0, strings.HasPrefix(strings.ToLower(last), "0x"):
		return fmt.Errorf("must name a host by its name, or by an address like 192.0.2.1, not by %.60q", host)
	}
	return nil
}

// webhookOwn are the headers that the sender sets, or that belong to the connection.
var webhookOwn = []string{"host", "content-length", "content-type", "connection", "transfer-encoding", "upgrade", "te", "trailer",
	"webhook-id", "webhook-timestamp", "webhook-signature", "proxy-authorization", "proxy-connection", "expect", "accept-encoding"}

func badWebhookHeader(name, value string) string {
	if name == "" || len(name)+len(value) > MaxHeaderBytes {
		return fmt.Sprintf("a header has a name, and at most %d bytes", MaxHeaderBytes)
	}
	lower := strings.ToLower(name)
	for i := range len(name) {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~", rune(lower[i])) {
			return "is not a header's name"
		}
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "its value holds a control character"
		}
	}
	for _, own := range webhookOwn {
		if lower == own {
			return "is set by the sender"
		}
	}
	if strings.HasPrefix(lower, "mq-") || strings.HasPrefix(lower, "ce-") {
		return "names beginning with mq- and ce- are set by the sender"
	}
	return ""
}

// webhookSlack is how much longer a lease is than an attempt may take: for the way there and back, and for the
// settlement to find a new leader.
const webhookSlack = 30 * time.Second

// GroupSettings are those of the group behind the webhook: its members are the living gateways. Its back-off is for attempts that nobody reported: those
// of a gateway that died.
func (w *WebhookSettings) GroupSettings() GroupSettings {
	b := Backoff{Initial: w.Retry.Initial, Multiplier: w.Retry.Multiplier, Max: w.Retry.Max, Jitter: w.Retry.Jitter}
	if n := len(w.Retry.Schedule); n > 0 {
		b.Initial = w.Retry.Schedule[0]
		b.Max = max(b.Initial, w.Retry.Schedule[n-1])
	}
	g := DefaultGroupSettings()
	g.Start, g.Ordering, g.Mode, g.Backoff = w.Start, w.Ordering, ModePush, b
	g.Lease = Duration(time.Duration(w.Timeout) + webhookSlack)
	g.MaxAttempts, g.MaxInFlight, g.DeadLetterTopic = w.Retry.MaxAttempts, w.MaxInFlight, w.DeadLetterTopic
	return g
}

// secretPrefix begins the text of a webhook's secret.
const secretPrefix = "whsec_"

// WebhookSecretText is a key as the text of a secret.
func WebhookSecretText(key []byte) string {
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// ParseWebhookSecret is the key of a secret's text: whsec_ and 24 to 64 bytes as base64. No error holds the text.
func ParseWebhookSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("must be whsec_ and 24 to 64 bytes as base64")
	}
	return key, nil
}

// SecretFingerprint tells secrets apart without showing them: the first 8 hex digits of the SHA-256 of the text.
func SecretFingerprint(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}
