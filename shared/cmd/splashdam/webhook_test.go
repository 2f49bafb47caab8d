package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
)

func TestWebhookTables(t *testing.T) {
	rate := 0.5
	settings := mq.DefaultWebhookSettings()
	settings.URL = "https://shop.example.com/hooks"
	w := api.Webhook{Name: "shop", Topic: "orders", State: "ready", Secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", Settings: settings,
		GroupFigures: api.GroupFigures{Lag: 3, Waiting: 2, InFlight: 1, Dead: 1, OldestAge: api.Duration(2 * time.Second)},
		Secrets:      []api.WebhookSecret{{Fingerprint: "5d41402a"}},
		Gateways:     []api.WebhookGateway{{Gateway: "gateway-1", Partitions: []uint32{0, 1}, Circuit: "open", Until: noon}},
		Recent: api.WebhookRecent{Attempts: 2, Since: noon, SuccessRate: &rate, LastErrors: []api.WebhookAttempt{
			{ID: "EAEAAA", At: noon, Attempt: 2, Result: "failed", Status: 503, Duration: api.Duration(12 * time.Millisecond), Detail: "busy\x1b[31m " + strings.Repeat("x", 99)},
			{ID: "EAEAAA", At: noon, Attempt: 1, Result: "failed", Duration: api.Duration(15 * time.Second), Detail: "no answer within 15s"}}}}
	// 80 columns leave the detail 80 - (12+6+3+6+6+6) - 6 gaps of 2 = 29.
	same(t, renderWebhook(&w, 80, plain), `
webhook     shop of topic orders
url         https://shop.example.com/hooks
state       ready
secret      whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw   (not shown again)
lag         3 (0 ready, 1 in flight, 2 waiting)
dead        1
oldest      2.00s
recent      50.0 % of 2 attempts taken, since 2026-03-01 12:00:00.000
format      standard
retries     8 attempts, after 5s, 1m, 5m, 30m, 2h, 6h, 12h
limits      64 in flight, 15s an attempt
circuit     opens after 20 failures in a row, for 5s to 5m
signs with  5d41402a
served by   gateway-1: 2 partitions, circuit open until 2026-03-01 12:00:00.000

AT (UTC)            ID      TRY  RESULT  STATUS    TOOK  DETAIL
03-01 12:00:00.000  EAEAAA    2  failed     503  12.0ms  busy\x1b[31m xxxxxxxxx…
03-01 12:00:00.000  EAEAAA    1  failed       -  15.00s  no answer within 15s
`)
	same(t, renderWebhooks(nil, 80, plain), "no webhooks\n")
	same(t, renderAttempts(&api.WebhookAttempts{}, 80, plain), "no attempts\n")
}

func TestWebhookCommands(t *testing.T) {
	const hook = "/v1/topics/orders/webhooks/shop"
	s := &server{answers: map[string]string{
		"PUT " + hook:                                   `201 {"name":"shop","topic":"orders","secret":"whsec_x","secrets":[],"gateways":[]}`,
		"POST " + hook + "/test":                        `200 {"id":"test_1","ok":false,"status":401,"signed_with":["5d41402a"],"hint":"look"}`,
		"POST " + hook + "/rotate-secret":               `200 {"secret":"whsec_y","secrets":[{"fingerprint":"new"},{"fingerprint":"old","until":"2026-03-01T12:00:00Z"}]}`,
		"POST " + hook + "/replay?dry_run=true":         `200 {"dry_run":true,"lag":4,"again":3,"partitions":[]}`,
		"GET " + hook + "/attempts?limit=20&message=id": `200 {"attempts":[]}`,
	}}
	status, out, _ := s.run(t, "", "webhook", "create", "orders", "shop", "https://example.com/", "--header", "A=b", "--schedule", "1s,2s", "--start", "earliest", "--allow-private")
	if status != exitOK || !strings.Contains(out, "whsec_x") {
		t.Errorf("create: %d %s", status, out)
	}
	want := `PUT ` + hook + ` {"url":"https://example.com/","headers":{"A":"b"},"start":{"at":"earliest"},"retry":{"schedule":["1s","2s"]},"allow_private":true}`
	if got := s.asked[0]; got != want {
		t.Errorf("create asks\n%s, want\n%s", got, want)
	}
	if status, out, _ := s.run(t, "", "webhook", "test", "orders", "shop", "--key", "k", "-H", "a=b"); status != exitRefused || !strings.Contains(out, "not taken") || !strings.Contains(out, "look") {
		t.Errorf("test: %d %s", status, out)
	}
	if got, want := s.asked[len(s.asked)-1], "POST "+hook+`/test {"key":"k","headers":{"a":"b"}}`; got != want {
		t.Errorf("test asks %s, want %s", got, want)
	}
	if _, out, _ := s.run(t, "", "webhook", "rotate-secret", "orders", "shop", "--overlap", "1h"); out != "whsec_y\nthe old one (old) signs until 2026-03-01 12:00:00.000 too\n" {
		t.Errorf("rotate-secret: %s", out)
	}
	if status, out, errOut := s.run(t, "", "webhook", "replay", "orders", "shop", "--since", "2h", "--dry-run"); status != exitOK || !strings.Contains(out, "3 of them again") {
		t.Errorf("replay: %d %s %s", status, out, errOut)
	}
	if status, out, _ := s.run(t, "", "webhook", "attempts", "orders", "shop", "-m", "id"); status != exitOK || out != "no attempts\n" {
		t.Errorf("attempts: %d %s", status, out)
	}
	if status, _, errOut := s.run(t, "", "webhook", "create", "orders", "shop", "https://example.com/", "--start", "soon"); status != exitUsage {
		t.Errorf("a bad start: %d %s", status, errOut)
	}
}

// What a table of a webhook says of settings that are not what they mostly are.
func TestWebhookSettingRows(t *testing.T) {
	set := mq.DefaultWebhookSettings()
	set.Rate, set.Ordering, set.DeadLetterTopic, set.AllowPrivate = 2.5, mq.OrderingKey, "failed", true
	set.Headers = map[string]string{"X-B": "***", "X-A": "***"}
	set.Retry.Schedule, set.Retry.MaxAttempts, set.Circuit.Failures = nil, 0, 0
	same(t, pairs(settingRows(&set), 80), `
retries       no limit of attempts, 5s x 3, at most 12h
limits        64 in flight, 15s an attempt, 2.5 a second
circuit       never opens
headers       X-A, X-B
order         by key
dead letters  published to failed too
reaches       loopback and private addresses too
`)
}

func TestWebhookUpdate(t *testing.T) {
	const hook = "/v1/topics/orders/webhooks/shop"
	settings := mq.DefaultWebhookSettings()
	settings.URL, settings.Headers = "https://example.com/", map[string]string{"A": "***", "B": "***"}
	body, err := json.Marshal(api.Webhook{Name: "shop", Topic: "orders", Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{answers: map[string]string{"GET " + hook: "200 " + string(body), "PUT " + hook: "200 " + string(body)}}
	status, out, errOut := s.run(t, "", "webhook", "update", "orders", "shop", "--rate", "5", "--no-header", "b", "--header", "C=d,e", "--no-allow-private",
		"--circuit-open", "9s", "--retry-jitter", "0.5", "--dead-letter-topic", "")
	if status != exitOK || !strings.Contains(out, "circuit") {
		t.Fatalf("%d %s %s", status, out, errOut)
	}
	want := `PUT ` + hook + ` {"url":"https://example.com/","format":"standard","headers":{"A":"***","C":"d,e"},"ordering":"none","max_in_flight":64,` +
		`"rate":5,"timeout":"15s","retry":{"schedule":["5s","1m","5m","30m","2h","6h","12h"],"jitter":0.5,"max_attempts":8},` +
		`"circuit":{"failures":20,"open":"9s","max_open":"5m"},"dead_letter_topic":"","allow_private":false}`
	if got := s.asked[len(s.asked)-1]; got != want {
		t.Errorf("asks\n%s, want\n%s", got, want)
	}
	if status, _, errOut := s.run(t, "", "webhook", "update", "orders", "shop", "--header", "A=***"); status != exitUsage || !strings.Contains(errOut, "stays as it is") {
		t.Errorf("a hidden value that is sent back: %d %s", status, errOut)
	}
	s.answers["PUT "+hook] = `422 {"code":"validation_failed","status":422,"title":"Fields are bad.","errors":[{"pointer":"/headers/A","detail":"was for another server"}]}`
	if status, _, errOut := s.run(t, "", "webhook", "update", "orders", "shop", "--url", "https://example.org/"); status != exitRefused ||
		!strings.Contains(strings.Join(strings.Fields(errOut), " "), "/headers/A: was for another server") || !strings.Contains(errOut, "--no-header NAME") {
		t.Errorf("to another server: %d %s", status, errOut)
	}
	if status, _, errOut := s.run(t, "", "webhook", "update", "orders", "shop"); status != exitUsage || !strings.Contains(errOut, "name at least one setting") {
		t.Errorf("without a setting: %d %s", status, errOut)
	}
	if status, _, errOut := s.run(t, "", "webhook", "update", "orders", "shop", "--header", "B=1", "--no-header", "b"); status != exitUsage || !strings.Contains(errOut, "both name B") {
		t.Errorf("a header that is set and dropped: %d %s", status, errOut)
	}
}

// What is no number is said of its flag, before anything is asked.
func TestFlagsThatAreNumbers(t *testing.T) {
	for _, args := range [][]string{
		{"webhook", "update", "orders", "shop", "--rate=NaN"},
		{"webhook", "create", "orders", "shop", "http://x/", "--retry-jitter=Inf"},
		{"group", "update", "orders", "billing", "--backoff-multiplier=1e999"},
		{"topic", "update", "orders", "--retention-share=-Inf"},
		{"dead", "redrive", "orders", "billing", "--rate=fast"},
	} {
		var s server
		flag, value, _ := strings.Cut(args[len(args)-1], "=")
		want := flag + `: must be a number like 0.5, not "` + value + `"`
		if status, _, errOut := s.run(t, "", args...); status != exitUsage || !strings.Contains(errOut, want) || len(s.asked) > 0 {
			t.Errorf("%v: %d %s, want %s; asked %v", args, status, errOut, want, s.asked)
		}
	}
}

// The listener verifies with the reference library of Standard Webhooks what is signed with it, and shows what is wrong.
func TestListenVerifies(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	errRead, errWrite := io.Pipe()
	var out bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"listen", "--port", "0", "--secret", secret, "--status", "202", "-n", "2"}, strings.NewReader(""), &out, errWrite)
	}()
	line := make([]byte, 200)
	n, err := errRead.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.Fields(string(line[:n]))[2]
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"hello", "forged"} {
		now := time.Now()
		signature, err := signer.Sign("EAEAAA", now, []byte("hello"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("webhook-id", "EAEAAA")
		r.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
		r.Header.Set("webhook-signature", signature)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != 202 {
			t.Errorf("status %d", res.StatusCode)
		}
	}
	if status := <-ended; status != exitOK {
		t.Errorf("exit status %d", status)
	}
	if text := out.String(); !strings.Contains(text, "signature valid  hello") || !strings.Contains(text, "signature wrong: no matching signature found  forged") {
		t.Errorf("it shows:\n%s", text)
	}
}
