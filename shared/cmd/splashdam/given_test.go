package main

import (
	"strings"
	"testing"
	"time"
)

// A variable that was not set, or a zero, would choose everything, anything or the default: it is refused by name, and nothing
// is sent.
func TestEmptyFlagsAreRefused(t *testing.T) {
	for _, line := range []string{
		"dead delete orders billing --id=",
		"dead redrive orders billing --to=",
		"dead redrive orders billing --rate 0",
		"publish orders --idempotency-key=",
		"publish orders --ttl 0s",
		"consume orders --group=",
		"consume orders --group billing --member=",
		"consume orders --group billing --exec=",
		"consume orders --group billing --lease 0s",
		"consume orders --group billing --member w --ttl 0s",
		"consume orders --from-time=",
		"seek orders billing --snapshot=",
		"cluster move-leader orders 0 --to=",
		"webhook update orders shop --url=",
		"webhook update orders shop --schedule=",
		"extend receipt --lease 0s",
	} {
		s := &server{}
		args := strings.Fields(line)
		status, _, errOut := s.run(t, "x", args...)
		flag := ""
		for _, a := range args {
			if strings.HasPrefix(a, "--") && (strings.HasSuffix(a, "=") || flag == "") {
				flag = strings.TrimSuffix(a, "=")
			}
			if a == "0s" || a == "0" && strings.HasPrefix(args[len(args)-2], "--") {
				flag = args[len(args)-2]
			}
		}
		if status != exitUsage || !strings.Contains(errOut, flag+" ") || len(s.asked) > 0 {
			t.Errorf("%s: status %d, asked %v: %s", line, status, s.asked, errOut)
		}
	}
}

// What is a value although it is empty or zero goes through.
func TestEmptyFlagsThatAreValues(t *testing.T) {
	for line, want := range map[string]string{
		"publish orders --key=":                           "POST /v1/topics/orders/messages",
		"publish orders --delay 0s":                       "POST /v1/topics/orders/messages",
		"nack receipt --delay 0s --reason=":               "POST /v1/nack",
		"reject receipt --reason=":                        "POST /v1/reject",
		"dead redrive orders billing --limit 0":           "POST /v1/topics/orders/groups/billing/redrive",
		"webhook update orders shop --dead-letter-topic=": "GET /v1/topics/orders/webhooks/shop",
	} {
		s := &server{}
		_, _, errOut := s.run(t, "x", strings.Fields(line)...)
		if len(s.asked) == 0 || !strings.HasPrefix(s.asked[0], want) {
			t.Errorf("%s: asked %v: %s", line, s.asked, errOut)
		}
	}
}

// Errors fit the terminal as tables do; what is one word stays whole.
func TestErrorsFit(t *testing.T) {
	s := &server{answers: map[string]string{"GET /v1/topics/orders": `422 {"code":"validation_failed","title":"Fields have values that are not allowed; errors names each of them, and says what is.",` +
		`"detail":"/lease: must be 100ms to 12h; /max_attempts: must be 1 to 10000, or 0 for no limit; /x","request_id":"r"}`}}
	_, _, errOut := s.run(t, "", "topic", "describe", "orders")
	same(t, errOut, `
splashdam: validation_failed: /lease: must be 100ms to 12h; /max_attempts:
  must be 1 to 10000, or 0 for no limit; /x
  Fields have values that are not allowed; errors names each of them, and says
  what is.
  request id r
`)
}

// A time without a day is one of today: messages may be a week old, or years.
func TestRowTime(t *testing.T) {
	for ago, want := range map[time.Duration]string{0: "12:00:00.000", 12 * time.Hour: "00:00:00.000", 13 * time.Hour: "02-28 23:00",
		-24 * time.Hour: "03-02 12:00", 60 * 24 * time.Hour: "2025-12-31"} {
		if got := rowTime(noon.Add(-ago), noon); got != want {
			t.Errorf("%s ago: %s, want %s", ago, got, want)
		}
	}
}
