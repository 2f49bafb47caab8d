package api

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func TestSeekTarget(t *testing.T) {
	three := uint32(3)
	for text, want := range map[string]SeekTarget{
		`"earliest"`:                      {At: "earliest"},
		`{"time":"2026-01-02T03:04:05Z"}`: {Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		`{"offset":0,"partition":3}`:      {Partition: &three},
		`{"snapshot":"s"}`:                {Snapshot: "s"},
	} {
		var got SeekTarget
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if b, err := json.Marshal(want); err != nil || string(b) != text {
			t.Errorf("%+v: %s, %v; want %s", want, b, err, text)
		}
	}
	for _, text := range []string{`"middle"`, `7`, `[]`, `{}`, `{"offset":1}`, `{"partition":1}`, `{"time":"x"}`, `{"snapshot":""}`,
		`{"snapshot":"s","time":"2026-01-02T03:04:05Z"}`, `{"offset":-1,"partition":0}`, `{"offset":1,"partition":0,"more":1}`, `null`} {
		var got SeekTarget
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is taken: %+v", text, got)
		}
	}
}
