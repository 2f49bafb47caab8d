package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
)

// A page of another site can make its reader's browser send a POST without a question: nothing but GETs that only answer
// may do anything for it, whatever the call.
func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(c *Config) { c.Origins = []string{"*.friends.example"} })
	names := strings.NewReplacer(":topic", "t", ":group", "g", ":partition", "0", ":node", "n", ":webhook", "w", ":member", "m", ":snapshot", "s", ":id", "EAEAAA")
	refused := func(r route, header ...string) bool {
		req, err := http.NewRequestWithContext(t.Context(), r.method, e.g.URL()+names.Replace(r.path), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var p api.Problem
		_ = json.NewDecoder(res.Body).Decode(&p)
		return res.StatusCode == 400 && len(p.Errors) == 1 && (p.Errors[0].Pointer == "header/Origin" || p.Errors[0].Pointer == "header/Sec-Fetch-Site")
	}
	n := 0
	for _, r := range e.g.routes() {
		for _, foreign := range [][]string{{"Origin", "https://elsewhere.example"}, {"Origin", "null"}, {"Origin", "http://127.0.0.1:1"},
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://elsewhere.example", "Sec-Fetch-Site", "same-origin"}} {
			harmless := r.method == http.MethodGet && !strings.HasSuffix(r.path, "/stream")
			if refused(r, foreign...) == harmless {
				t.Errorf("%s %s with %v: harmless is %v", r.method, r.path, foreign, harmless)
			}
			n++
		}
	}
	if n < 200 {
		t.Errorf("only %d calls were tried", n)
	}
	publish := route{method: http.MethodPost, path: "/v1/topics/t/messages"}
	for _, own := range [][]string{nil, {"Origin", e.g.URL()}, {"Origin", "https://a.friends.example"},
		{"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}, {"Origin", "https://a.friends.example", "Sec-Fetch-Site", "cross-site"}} {
		if refused(publish, own...) {
			t.Errorf("a publish with %v is refused", own)
		}
	}
}
