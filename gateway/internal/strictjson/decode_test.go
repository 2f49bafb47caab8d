package strictjson

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

func TestDecodeKeepsWhatIsNotNamed(t *testing.T) {
	s := mq.DefaultTopicSettings()
	err := Decode([]byte(`{"partitions": 8, "retention": {"time": "1h"}, "group_defaults": {"lease": "5s"}}`), &s)
	if err != nil {
		t.Fatal(err)
	}
	want := mq.DefaultTopicSettings()
	want.Partitions = 8
	want.Retention.Time = mq.Duration(3600e9)
	want.GroupDefaults.Lease = mq.Duration(5e9)
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

func TestDecodeNamesEveryBadField(t *testing.T) {
	for _, c := range []struct {
		body     string
		code     mqerr.Code
		pointers string // of the fields, in order
	}{
		{``, mqerr.InvalidJSON, ""},
		{`{`, mqerr.InvalidJSON, ""},
		{`{"a":`, mqerr.InvalidJSON, ""},
		{`{"retention":{"time":"1h"}`, mqerr.InvalidJSON, ""},
		{`{} {}`, mqerr.InvalidJSON, ""},
		{`{}]`, mqerr.InvalidJSON, ""},
		{"{\"\xff\":1}", mqerr.InvalidJSON, ""},
		{strings.Repeat("[", 100_000), mqerr.InvalidJSON, ""},
		{`[]`, mqerr.ValidationFailed, ""},
		{`null`, mqerr.ValidationFailed, ""},
		{`"x"`, mqerr.ValidationFailed, ""},
		{`{"partitions":"4"}`, mqerr.ValidationFailed, "/partitions"},
		{`{"partitions":-1}`, mqerr.ValidationFailed, "/partitions"},
		{`{"partitions":1.5}`, mqerr.ValidationFailed, "/partitions"},
		{`{"partitions":4294967296}`, mqerr.ValidationFailed, "/partitions"},
		{`{"partitions":null}`, mqerr.ValidationFailed, "/partitions"},
		{`{"partitions":true}`, mqerr.ValidationFailed, "/partitions"},
		{`{"Partitions":4}`, mqerr.ValidationFailed, "/Partitions"},
		{`{"retention":{"time":5}}`, mqerr.ValidationFailed, "/retention/time"},
		{`{"retention":{"time":"soon"}}`, mqerr.ValidationFailed, "/retention/time"},
		{`{"retention":[]}`, mqerr.ValidationFailed, "/retention"},
		{`{"retention":{"keep_unsettled":"yes"}}`, mqerr.ValidationFailed, "/retention/keep_unsettled"},
		{`{"group_defaults":{"backoff":{"jitter":1e999}}}`, mqerr.ValidationFailed, "/group_defaults/backoff/jitter"},
		{`{"a/b~c":1}`, mqerr.ValidationFailed, "/a~1b~0c"},
		{`{"partitions":2,"partitions":3}`, mqerr.ValidationFailed, "/partitions"},
		{`{"partitions":2,"part\u0069tions":3}`, mqerr.ValidationFailed, "/partitions"},
		{`{"retention":{"time":"1h","time":"1h"},"x":[{},{"y":1,"y":2}]}`, mqerr.ValidationFailed, "/retention/time /x/1/y"},
		{strings.Repeat(`{"a":`, 600) + `1` + strings.Repeat(`}`, 600), mqerr.InvalidJSON, ""},
		{`{"retention":{"time":"\ud800"}}`, mqerr.InvalidJSON, ""},
		{`{"x":1,"partitions":[],"retention":{"y":{}}}`, mqerr.ValidationFailed, "/partitions /retention/y /x"},
	} {
		s := mq.DefaultTopicSettings()
		e := mqerr.Of(Decode([]byte(c.body), &s))
		if e == nil || e.Code != c.code {
			t.Errorf("%.60q: %v, want %v", c.body, e, c.code)
			continue
		}
		var pointers []string
		for _, f := range e.Fields {
			pointers = append(pointers, f.Pointer)
		}
		if got := strings.Join(pointers, " "); got != c.pointers {
			t.Errorf("%.60q names %q, want %q", c.body, got, c.pointers)
		}
		if !reflect.DeepEqual(s, mq.DefaultTopicSettings()) {
			t.Errorf("%.60q changed the target", c.body)
		}
	}
}

func TestDecodeBoundsItsAnswer(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"z":1`)
	for range 1000 {
		b.WriteString(`,"` + strings.Repeat("x", b.Len()%50+50) + `":1`)
	}
	b.WriteString("}")
	s := mq.DefaultTopicSettings()
	e := mqerr.Of(Decode([]byte(b.String()), &s))
	if e == nil || len(e.Fields) > maxFields {
		t.Fatalf("%v", e)
	}
	for _, f := range e.Fields {
		if len(f.Pointer) > 50 {
			t.Errorf("pointer of %d bytes", len(f.Pointer))
		}
	}
}

// The examples of RFC 7396, appendix A, as far as target and patch are objects.
func TestMergeAsInTheRFC(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"a":9007199254740993}`, ``, `{"a":9007199254740993}`},
		{`{"a":9007199254740993}`, `{"b":18446744073709551615}`, `{"a":9007199254740993,"b":18446744073709551615}`},
	} {
		got, err := Merge([]byte(c[0]), []byte(c[1]))
		if err != nil || string(got) != c[2] {
			t.Errorf("%s + %s = %s, %v; want %s", c[0], c[1], got, err, c[2])
		}
	}
	for _, patch := range []string{`[]`, `1`, `null`, `"x"`, `{`} {
		if _, err := Merge([]byte(`{}`), []byte(patch)); err == nil {
			t.Errorf("the patch %s was taken", patch)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{}`, `{"partitions":4}`, `{"retention":{"time":"1h"},"x":[1,{"y":null}]}`, `[[[`, `{"a":1e9}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := mq.DefaultTopicSettings()
		err := Decode(body, &s)
		if err == nil && !json.Valid(body) {
			t.Errorf("%q is no JSON", body)
		}
		if e := mqerr.Of(err); e != nil && e.Code != mqerr.InvalidJSON && e.Code != mqerr.ValidationFailed {
			t.Errorf("%q: %v", body, e)
		}
		if merged, err := Merge([]byte(`{"a":{"b":1}}`), body); err == nil && !json.Valid(merged) {
			t.Errorf("merged with %q: %q", body, merged)
		}
	})
}
