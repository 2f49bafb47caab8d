package mq

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestFilter(t *testing.T) {
	var f Filter
	if err := json.Unmarshal([]byte(`{"type":{"prefix":"order."},"Region":["eu","uk"],"tenant":"acme"}`), &f); err != nil {
		t.Fatal(err)
	}
	h := func(pairs ...string) (out []Header) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, Header{pairs[i], pairs[i+1]})
		}
		return out
	}
	for _, c := range []struct {
		headers []Header
		want    bool
	}{
		{h("type", "order.made", "region", "uk", "tenant", "acme"), true},
		{h("TYPE", "order.", "REGION", "eu", "tenant", "acme", "more", "x"), true},
		{h("region", "asia", "region", "eu", "type", "order.x", "tenant", "acme"), true}, // one of several is enough
		{h("type", "order", "region", "uk", "tenant", "acme"), false},
		{h("type", "order.made", "region", "EU", "tenant", "acme"), false},
		{h("type", "order.made", "region", "eu"), false},
		{nil, false},
	} {
		if got := f.Match(c.headers); got != c.want {
			t.Errorf("%v: %v", c.headers, got)
		}
	}
	if !Filter(nil).Match(nil) {
		t.Error("no filter wants everything")
	}
	b, err := json.Marshal(f)
	var again Filter
	if err != nil || json.Unmarshal(b, &again) != nil || !reflect.DeepEqual(f, again) {
		t.Errorf("as JSON %s: %v", b, again)
	}
	r := NewReader(f.Append(nil))
	if got := ReadFilter(r); r.Err() != nil || r.Len() != 0 || !reflect.DeepEqual(f, got) {
		t.Errorf("stored and read: %v, %v", got, r.Err())
	}
	s := DefaultGroupSettings()
	for _, bad := range []Filter{{{Name: ""}}, {{Name: "a"}}, {{Name: "a", Values: []string{"x"}, Prefix: "p"}},
		{{Name: "b", Values: []string{"x"}}, {Name: "a", Values: []string{"x"}}}, {{Name: "a", Values: []string{string(make([]byte, MaxFilterBytes))}}},
		make(Filter, MaxFilterHeaders+1)} {
		if s.Filter = bad; s.Validate("") == nil {
			t.Errorf("%.60v is allowed", bad)
		}
	}
	if s.Filter = f; s.Validate("") != nil {
		t.Errorf("%v is refused: %v", f, s.Validate(""))
	}
}
