package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/frame"
)

// FuzzItem reads an item as the gateway does and as encoding/json would. What is taken must mean the same;
// what is refused must not be a plain, sound item.
func FuzzItem(f *testing.F) {
	for _, s := range []string{`{"value":"x"}`, `{"value":"eA==","encoding":"base64","key":"k","content_type":"a/b","headers":{"a":"b"},"partition":3}`,
		`{"encoding":"json","value":{"a":[1,2]}}`, `{"value":"\u00e9\n"}`, `{"value":null}`, `{"value":"x","value":"y"}`, `{"value":"x","headers":{"a":1}}`,
		`{"value":"x","lane":"normal","ttl":null}`, `[]`, `{"value":"x"`, `{"Value":"x"}`, `{"value":"x","partition":-1}`} {
		f.Add([]byte(s))
	}
	r := &itemReader{maxValue: 1 << 20, index: -1}
	f.Fuzz(func(t *testing.T, b []byte) {
		r.scan.Reset(b)
		err := r.read()
		if err == nil {
			err = r.scan.End()
		}
		if err != nil || r.err != nil {
			return
		}
		var want api.PublishItem
		if err := json.Unmarshal(b, &want); err != nil {
			t.Fatalf("%s is taken: %v", b, err)
		}
		var value []byte
		var text string
		switch want.Encoding {
		case api.EncodingJSON:
			value = want.Value
		case api.EncodingBase64:
			if err = json.Unmarshal(want.Value, &text); err == nil {
				value, err = base64.StdEncoding.DecodeString(text)
			}
		default:
			err = json.Unmarshal(want.Value, &text)
			value = []byte(text)
		}
		if err != nil || !bytes.Equal(value, r.msg.Value) {
			t.Fatalf("%s is %q, not %q (%v)", b, r.msg.Value, value, err)
		}
		if (want.Key != nil) != r.msg.HasKey || want.Key != nil && *want.Key != string(r.msg.Key) || want.ContentType != r.msg.ContentType {
			t.Fatalf("%s: key %q, type %q", b, r.msg.Key, r.msg.ContentType)
		}
		if want.Partition != nil && int64(*want.Partition) != r.partition || want.Partition == nil && r.partition != anyPartition {
			t.Fatalf("%s: partition %d", b, r.partition)
		}
		for _, h := range r.msg.Headers {
			if _, ok := want.Headers[h.Name]; !ok {
				t.Fatalf("%s: header %q", b, h.Name)
			}
		}
	})
}

// FuzzSettle: whatever a body holds, it is read without a panic, and every receipt has a place for its result.
func FuzzSettle(f *testing.F) {
	for _, s := range []string{`{"ack":["x"],"nack":[{"receipt":"y","delay":"5s","reason":"r"}],"reject":[{"receipt":"z"}]}`, `{"receipt":"x"}`,
		`{"receipts":["x","y"],"delay":"1s"}`, `AQEDAQ`, `{"ack":`, `null`, `{"nack":[null]}`, `{"reject":{}}`, `{"release":["x"]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, o := range []frame.Outcome{0, frame.OutcomeAck, frame.OutcomeNack, frame.OutcomeReject, frame.OutcomeRelease} {
			s := &settlement{}
			var err error
			if o == 0 {
				err = s.parseSettle(b)
			} else {
				err = s.parseAct(b, o)
			}
			if n := len(s.items); n != len(s.from) || n != len(s.errs) || n != len(s.until) || err == nil && n == 0 {
				t.Fatalf("%q: %d items, %v", b, n, err)
			}
		}
	})
}
