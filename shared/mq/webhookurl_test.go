package mq

import (
	"strings"
	"testing"
)

// What a webhook's URL may be: nothing that could lead elsewhere than it says.
func TestWebhookURLs(t *testing.T) {
	for _, url := range []string{"http://example.com/", "https://example.com:8443/a?b=c", "http://192.0.2.1/", "http://192.0.2.1:65535/",
		"http://[2001:db8::1]:80/", "http://localhost:9000", "http://example.com./", "http://7.example/", "http://bücher.example/", "http://x1/"} {
		if err := checkWebhookURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for url, want := range map[string]string{
		"":                                   "must be given",
		"ftp://example.com/":                 "must begin with",
		"file:///etc/passwd":                 "must begin with",
		"//example.com/":                     "must begin with",
		"http:///x":                          "must name a host",
		"http://./":                          "must name a host",
		"http://user:secret@example.com/":    "user and password",
		"http://example.com/#a":              "fragment",
		"http://example.com:0/":              "port",
		"http://example.com:65536/":          "port",
		"http://127.0.0.1:99999999999999999": "port",
		"http://2130706433/":                 "192.0.2.1",
		"http://0x7f000001/":                 "192.0.2.1",
		"http://127.1/":                      "192.0.2.1",
		"http://0177.0.0.1/":                 "192.0.2.1",
		"http://127.0.0.0X1/":                "192.0.2.1",
		"http://169.254.169.254./":           "192.0.2.1",
		"http://127.0.0.１/":                  "192.0.2.1",
		"http://256.256.256.256/":            "192.0.2.1",
		"http://a b/":                        "is not a URL",
		"http://example.com/\r\nX: y":        "is not a URL",
		"http://" + strings.Repeat("a.", 127) + "example/":         "253",
		"http://example.com/" + strings.Repeat("a", MaxWebhookURL): "at most",
	} {
		if err := checkWebhookURL(url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", url, err, want)
		}
	}
}
