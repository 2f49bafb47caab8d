package strictjson

import (
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// A type that reads its own JSON says what is wrong, at the place of the field.
func TestTypesThatReadThemselves(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"filter":{"a":"x","b":["y","z"],"c":{"prefix":"p"},"d":null}}`: true,
		`{"filter":{}}`: true, `{"filter":[]}`: false, `{"filter":{"a":7}}`: false, `{"filter":{"a":[]}}`: false,
		`{"filter":{"a":{"suffix":"p"}}}`: false, `{"filter":{"a":{"prefix":""}}}`: false, `{"filter":{"a":["x",7]}}`: false,
	} {
		var into struct {
			Filter mq.Filter `json:"filter"`
		}
		err := Decode([]byte(body), &into)
		if ok != (err == nil) {
			t.Errorf("%s: %v", body, err)
		}
		if e := mqerr.Of(err); !ok && (e.Code != mqerr.ValidationFailed || e.Fields[0].Pointer != "/filter") {
			t.Errorf("%s: %+v", body, e)
		}
	}
}
