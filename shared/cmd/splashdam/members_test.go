package main

import (
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/client"
)

func TestGroupMembers(t *testing.T) {
	s := &server{answers: map[string]string{"GET /v1/topics/t/groups/g/members": `200 {"generation":7,"members":[
		{"member":"a","zone":"z1","ttl":"10s","joined":"2026-03-04T05:06:07Z","assignment":[0,1,2,5,7,8]},
		{"member":"b","assignment":[],"gone":true}]}`}}
	status, out, errOut := s.run(t, "", "group", "members", "t", "g")
	if status != exitOK {
		t.Fatal(errOut)
	}
	for _, want := range []string{"0-2 5 7-8", "03-04 05:06:07", "gone", "generation 7"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestConsumeAsAMember(t *testing.T) {
	const base = "/v1/topics/t/groups/g/"
	s := &server{answers: map[string]string{
		"POST " + base + "members":              `201 {"member":"me","ttl":"10s","assignment":[0,1],"generation":1}`,
		"POST " + base + "members/me/heartbeat": `409 {"code":"not_member"}`,
		"POST " + base + "receive":              `200 {"messages":[{"id":"x","receipt":"r1","value":"hello","encoding":"utf8"}]}`,
		"POST /v1/settle":                       `200 {"results":[{}]}`,
		"DELETE " + base + "members/me":         `204 `,
	}}
	status, out, errOut := s.run(t, "", "consume", "t", "-g", "g", "--member", "me", "--zone", "z1", "--ttl", "30s", "--partitions", "0,3", "--raw")
	if status != exitOK || out != "hello\n" || !strings.Contains(errOut, "me owns partitions 0-1") {
		t.Errorf("%d, %q, %q", status, out, errOut)
	}
	asked := strings.Join(s.asked, "\n")
	for _, want := range []string{`members {"name":"me","zone":"z1","ttl":"30s"}`, `"partitions":[0,3],"member":"me"`, `{"ack":["r1"]}`, "DELETE " + base + "members/me"} {
		if !strings.Contains(asked, want) {
			t.Errorf("no %q in\n%s", want, asked)
		}
	}
}

// --partitions and a member's settings reach every way of consuming; lists of what a group holds take one partition.
func TestPartitionsOnTheirWay(t *testing.T) {
	const base = "/v1/topics/t/groups/g/"
	held := `200 {"messages":[{"id":"x","partition":3,"state":"dead"}]}`
	s := &server{answers: map[string]string{
		"POST " + base + "receive":      `200 {"messages":[]}`,
		"POST " + base + "members":      `201 {"member":"me","ttl":"1m","assignment":[0],"generation":1}`,
		"DELETE " + base + "members/me": `204 `,
		"GET " + base + "stream?consumer=splashdam-cli&max=1&max_in_flight=1&partitions=0%2C3": "200 event: message\n" +
			`data: {"id":"x","receipt":"r1","value":"v","encoding":"utf8"}` + "\n\n",
		"POST /v1/settle": `200 {"results":[{}]}`,
		"GET " + base + "messages?limit=100&partition=3&state=dead": held,
		"GET " + base + "dead?limit=100&partition=3":                held,
	}}
	for _, args := range [][]string{
		{"consume", "t", "-g", "g", "--partitions", "0,3", "--exec", "true", "--member", "me", "--ttl", "1m", "--zone", "z2"},
		{"consume", "t", "-g", "g", "--partitions", "0,3", "--stream", "-n", "1"},
		{"group", "messages", "t", "g", "--state", "dead", "--partition", "3"},
		{"dead", "list", "t", "g", "--partition", "3"},
	} {
		if status, _, errOut := s.run(t, "", args...); status != exitOK {
			t.Errorf("%v: %d, %s", args, status, errOut)
		}
	}
	asked := strings.Join(s.asked, "\n")
	for _, want := range []string{`"partitions":[0,3]`, `members {"name":"me","zone":"z2","ttl":"1m"}`} {
		if !strings.Contains(asked, want) {
			t.Errorf("no %s in\n%s", want, asked)
		}
	}
}

func TestConsumeExec(t *testing.T) {
	message := func(receipt, value string) string {
		return `{"id":"id-` + receipt + `","partition":3,"offset":9,"receipt":"` + receipt + `","value":"` + value + `","encoding":"utf8",
			"key":"k","attempt":2,"headers":{"trace-id":"t1"}}`
	}
	s := &server{answers: map[string]string{
		"POST /v1/topics/t/groups/g/receive": `200 {"messages":[` + message("r1", "good") + `]}`,
		"POST /v1/settle":                    `200 {"results":[{}]}`,
	}}
	status, out, errOut := s.run(t, "", "consume", "t", "-g", "g", "--exec", `read v; echo "$v $MQ_KEY $MQ_ATTEMPT $MQ_HEADER_TRACE_ID $MQ_PARTITION/$MQ_OFFSET"`)
	if status != exitOK || out != "good k 2 t1 3/9\n" {
		t.Errorf("%d, %q, %q", status, out, errOut)
	}
	if asked := strings.Join(s.asked, "\n"); !strings.Contains(asked, `"ack":["r1"]`) {
		t.Errorf("not acknowledged: %s", asked)
	}
	s.answers["POST /v1/topics/t/groups/g/receive"] = `200 {"messages":[` + message("r2", "bad") + `]}`
	status, _, errOut = s.run(t, "", "consume", "t", "-g", "g", "--exec", "exit 3", "--max", "1", "--follow")
	if status != exitOK || !strings.Contains(errOut, "3/9, attempt 2: given back, since the command failed: exit status 3") {
		t.Errorf("%d, %q", status, errOut)
	}
	if asked := strings.Join(s.asked, "\n"); !strings.Contains(asked, `"nack":[{"receipt":"r2","reason":"exit status 3"}]`) {
		t.Errorf("not given back: %s", asked)
	}
	for _, args := range [][]string{
		{"consume", "t", "--exec", "true"},
		{"consume", "t", "-g", "g", "--exec", "true", "--concurrency", "0"},
		{"consume", "t", "-g", "g", "--exec", "true", "--concurrency", "2", "--max", "3"},
		{"consume", "t", "-g", "g", "--exec", "true", "--no-ack"},
		{"consume", "t", "--partitions", "0"},
		{"consume", "t", "-g", "g", "--zone", "z1"},
		{"consume", "t", "-g", "g", "--ttl", "30s"},
		{"consume", "t", "-g", "g", "--partition", "0"},
	} {
		if status, _, errOut := s.run(t, "", args...); status != exitUsage {
			t.Errorf("%v: %d, %q", args, status, errOut)
		}
	}
}

func TestEnvironmentOfACommand(t *testing.T) {
	d := client.Delivery{ID: "x", Key: []byte("a\x00b\xff"), Headers: map[string]string{"big": strings.Repeat("x", maxEnvironment+1)}}
	for _, e := range environment(&d) {
		if strings.Contains(e, "\x00") {
			t.Errorf("a zero byte in %q", e)
		}
		if strings.HasPrefix(e, "MQ_HEADER_BIG") {
			t.Error("a header that no environment has room for")
		}
		if name, value, _ := strings.Cut(e, "="); name == "MQ_KEY" && value != "ab\uFFFD" {
			t.Errorf("key %q", value)
		}
	}
}
