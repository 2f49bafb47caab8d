package gateway

import (
	"net/http"
	"testing"

	"github.com/splashdam/splashdam/shared/mqerr"
)

func TestPreconditions(t *testing.T) {
	for _, c := range []struct {
		match, noneMatch string
		read             mqerr.Code // of reading the headers
		missing, found   mqerr.Code // of a request that finds nothing, or revision 12
	}{
		{"", "", mqerr.OK, mqerr.OK, mqerr.OK},
		{"", "*", mqerr.OK, mqerr.OK, mqerr.AlreadyExists},
		{"", `"12"`, mqerr.InvalidParameter, 0, 0},
		{"*", "", mqerr.OK, mqerr.PreconditionFailed, mqerr.OK},
		{`"12"`, "", mqerr.OK, mqerr.PreconditionFailed, mqerr.OK},
		{`"11"`, "", mqerr.OK, mqerr.PreconditionFailed, mqerr.PreconditionFailed},
		{`"11", "12"`, "", mqerr.OK, mqerr.PreconditionFailed, mqerr.OK},
		{`W/"12"`, "", mqerr.OK, mqerr.PreconditionFailed, mqerr.PreconditionFailed},
		{`"of another server"`, "", mqerr.OK, mqerr.PreconditionFailed, mqerr.PreconditionFailed},
		{`12`, "", mqerr.InvalidParameter, 0, 0},
		{`"12`, "", mqerr.InvalidParameter, 0, 0},
		{`"1"2"`, "", mqerr.InvalidParameter, 0, 0},
		{`"12",`, "", mqerr.InvalidParameter, 0, 0},
		{`"12"`, "*", mqerr.InvalidParameter, 0, 0},
	} {
		h := http.Header{}
		if c.match != "" {
			h.Set("If-Match", c.match)
		}
		if c.noneMatch != "" {
			h.Set("If-None-Match", c.noneMatch)
		}
		p, err := readPrecondition(h)
		if codeOf(err) != c.read {
			t.Errorf("%q %q: %v", c.match, c.noneMatch, err)
		}
		if err != nil {
			continue
		}
		if err := p.onMissing("topic", "x"); codeOf(err) != c.missing {
			t.Errorf("%q %q on nothing: %v", c.match, c.noneMatch, err)
		}
		if err := p.onFound("topic", "x", 12); codeOf(err) != c.found {
			t.Errorf("%q %q on 12: %v", c.match, c.noneMatch, err)
		}
	}
}

func codeOf(err error) mqerr.Code {
	if err == nil {
		return mqerr.OK
	}
	return mqerr.Of(err).Code
}
