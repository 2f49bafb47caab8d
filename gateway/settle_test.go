package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
)

func TestSettleReportsEachReceipt(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", func(s *mq.TopicSettings) { s.Partitions = 3 })
	for i := range 6 {
		e.post("/v1/topics/t/messages", "x", "Mq-Partition", fmt.Sprint(i%3))
	}
	var got api.ReceiveAnswer
	for len(got.Messages) < 6 { // one answers with what is there when a partition has been asked
		var some api.ReceiveAnswer
		e.post("/v1/topics/t/groups/g/receive", `{"max":100,"wait":"20s"}`).into(t, &some)
		if len(some.Messages) == 0 {
			t.Fatalf("%d messages", len(got.Messages))
		}
		got.Messages = append(got.Messages, some.Messages...)
	}
	r := func(i int) string { return fmt.Sprintf("%q", got.Messages[i].Receipt) }
	foreign := mq.Receipt{Key: 1, Partition: mq.PartitionID{Topic: 999, Number: 7}, Group: 5, Segment: 1, Counter: 1}
	forged := fmt.Sprintf("%q", foreign.AppendText(nil, []byte("another secret")))
	body := `{"reject":[{"receipt":` + r(2) + `,"reason":"bad"}],
		"ack":[` + r(0) + `,"nonsense",` + forged + `,` + r(0) + `],
		"nack":[{"receipt":` + r(1) + `,"delay":"5s","reason":"later"},{"receipt":` + r(1) + `}],
		"release":[` + r(5) + `,"nonsense"],
		"extend":[{"receipt":` + r(3) + `,"lease":"1m"},{"receipt":` + r(4) + `}]}`
	a := e.post("/v1/settle", body)
	var s api.SettleAnswer
	if a.into(t, &s); a.status != 207 || s.Failed != 4 || len(s.Results) != 11 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for i, want := range []string{"", "invalid_receipt", "invalid_receipt", "", "", "receipt_stale", "", "", "", "", "invalid_receipt"} {
		code := ""
		if s.Results[i].Error != nil {
			code = s.Results[i].Error.Code
		}
		if code != want {
			t.Errorf("result %d: %q, want %q", i, code, want)
		}
	}
	// The fake's clock stands at 1,800,000,000 s; the group's lease is 30 s.
	for i, want := range map[int]int64{7: 1_800_000_060, 8: 1_800_000_030} {
		if got := s.Results[i].LeaseExpiresAt.Unix(); got != want {
			t.Errorf("lease of result %d ends at %d, want %d", i, got, want)
		}
	}
	if nack := s.Results[4]; nack.RetryAt.Unix() != 1_800_000_005 || !nack.LeaseExpiresAt.IsZero() {
		t.Errorf("the nack's result: %+v", nack)
	}
	if a := e.post("/v1/ack", `{"receipts":[`+r(4)+`,`+r(0)+`]}`); a.status != 200 || a.body != `{"results":[{},{}],"failed":0}`+"\n" {
		t.Errorf("ack: %d %s", a.status, a.body)
	}
	for _, receipt := range []string{"nonsense", strings.Trim(forged, `"`), strings.Repeat("A", 5000)} {
		if a := e.post("/v1/ack", receipt); a.status != 400 || a.code(t) != "invalid_receipt" {
			t.Errorf("%.40s: %d %s", receipt, a.status, a.body)
		}
	}
}

func TestSettleRefusesBadBodies(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, c := range []struct {
		path, body, code, pointer string
	}{
		{"settle", `{`, "invalid_json", ""},
		{"settle", `[]`, "validation_failed", ""},
		{"settle", `{}`, "validation_failed", ""},
		{"settle", ``, "invalid_json", ""},
		{"settle", `{"ack":5}`, "validation_failed", "/ack"},
		{"settle", `{"ack":["x",5]}`, "validation_failed", "/ack/1"},
		{"settle", `{"ack":["x"],"ack":["y"]}`, "validation_failed", "/ack"},
		{"settle", `{"acks":["x"]}`, "validation_failed", "/acks"},
		{"settle", `{"nack":["x"]}`, "validation_failed", "/nack/0"},
		{"settle", `{"nack":[{"delay":"1s"}]}`, "validation_failed", "/nack/0/receipt"},
		{"settle", `{"nack":[{"receipt":"x","delay":"-1s"}]}`, "validation_failed", "/nack/0/delay"},
		{"settle", `{"nack":[{"receipt":"x","delay":"25h"}]}`, "validation_failed", "/nack/0/delay"},
		{"settle", `{"nack":[{"receipt":"x","lease":"1m"}]}`, "validation_failed", "/nack/0/lease"},
		{"settle", `{"reject":[{"receipt":"x","reason":"` + strings.Repeat("r", 1025) + `"}]}`, "validation_failed", "/reject/0/reason"},
		{"settle", `{"extend":[{"receipt":"x","lease":"13h"}]}`, "validation_failed", "/extend/0/lease"},
		{"settle", `{"release":[{"receipt":"x"}]}`, "validation_failed", "/release/0"},
		{"release", `{"receipt":"x","reason":"r"}`, "validation_failed", "/reason"},
		{"settle", strings.Repeat(`{"ack":`, 2000), "invalid_json", ""},
		{"ack", `{"receipt":"x","receipts":["y"]}`, "validation_failed", "/receipts"},
		{"ack", "no-receipt", "invalid_receipt", "\x00"},
		{"ack", `{"receipt":"no-receipt"}`, "invalid_receipt", "/receipt"},
		{"ack", `{"receipts":[]}`, "validation_failed", "/receipts"},
		{"ack", `{"receipt":7}`, "validation_failed", "/receipt"},
		{"ack", `{"receipt":"x","delay":"1s"}`, "validation_failed", "/delay"},
		{"ack", `{"receipt":"\ud800"}`, "invalid_json", ""},
		{"ack", `["x"]`, "validation_failed", ""},
		{"extend", `{"receipt":"x","lease":5}`, "validation_failed", "/lease"},
		{"ack", `{"receipts":[` + strings.Repeat(`"x",`, 10_000) + `"x"]}`, "batch_too_large", ""},
	} {
		a := e.post("/v1/"+c.path, c.body)
		wanted := c.pointer != ""
		c.pointer = strings.TrimPrefix(c.pointer, "\x00") // the body itself
		if got := a.code(t); got != c.code || wanted && !strings.Contains(a.body, `"pointer":"`+c.pointer+`"`) {
			t.Errorf("%s %.60s: %s, want %s at %s", c.path, c.body, a.body, c.code, c.pointer)
		}
	}
}
