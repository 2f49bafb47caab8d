package gateway

import (
	"strings"
	"testing"
)

// Nothing of the decoder's own words reaches a caller, JSON in another charset is refused, and so is a filter whose names are
// told apart by case only.
func TestRefusalsSpeakOfTheCall(t *testing.T) {
	t.Parallel()
	h := startHarness(t)
	h.topic("orders", `{"partitions":1}`)
	const group = "/v1/topics/orders/groups/g"
	h.ok(201, "PUT", group, "")
	for _, call := range []struct{ method, path, body, pointer string }{
		{"POST", group + "/seek", `{"to":{"offset":"x","partition":0}}`, "/to"},
		{"POST", group + "/seek", `{"to":{"time":"yesterday"}}`, "/to"},
		{"POST", group + "/seek", `{"to":{"snapshot":7}}`, "/to"},
		{"POST", group + "/seek", `{"to":7}`, "/to"},
		{"POST", group + "/redrive", `{"filter":{"died_after":"yesterday"}}`, "/filter/died_after"},
		{"POST", group + "/redrive", `{"rate":1e999}`, "/rate"},
		{"PUT", group, `{"start":{"at":"time","time":"yesterday"}}`, "/start/time"},
		{"PUT", group, `{"filter":[]}`, "/filter"},
		{"PUT", group, `{"filter":{"A":{"prefix":7}}}`, "/filter"},
		{"PUT", group, `{"filter":{"Kind":"x","kind":"y"}}`, "/filter"},
		{"PUT", group, `{"lease":"soon"}`, "/lease"},
		{"PUT", "/v1/topics/orders/webhooks/shop", `{"url":7}`, "/url"},
	} {
		h.fails("validation_failed", call.pointer, call.method, call.path, call.body)
		text := string(h.call(call.method, call.path, call.body).body)
		for _, leak := range []string{"Go ", "json:", "unmarshal", "strconv", "parsing time", "2006-01-02"} {
			if strings.Contains(text, leak) {
				t.Errorf("%s: %q in %s", call.body, leak, text)
			}
		}
	}
	for charset, status := range map[string]int{"utf-8": 200, "UTF-8": 200, `"us-ascii"`: 200, "utf-16": 415, "latin1": 415} {
		for _, path := range []string{"/v1/topics/orders/messages/batch", group + "/receive"} {
			if a := h.call("POST", path, `{"messages":[]}`, "Content-Type", "application/json; charset="+charset); (a.status == 415) != (status == 415) {
				t.Errorf("%s with charset %s: %d %s", path, charset, a.status, a.body)
			}
		}
	}
}
