package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

type sample struct {
	Name   string        `help:"Name of this node." default:"node-1"`
	Listen string        `help:"Where to listen." default:"127.0.0.1:7070"`
	Etcd   []string      `help:"Etcd endpoints."`
	TTL    time.Duration `help:"Lease." default:"2s"`
	Quiet  bool          `help:"Say less."`
}

func TestParseTakesFlagsThenEnvironmentThenDefaults(t *testing.T) {
	t.Setenv("SPLASHDAM_NAME", "from-env")
	t.Setenv("SPLASHDAM_TTL", "5s")
	t.Setenv("SPLASHDAM_ETCD", "a:1,b:2")
	var got sample
	if err := Parse(&got, "sample", "A sample.", []string{"--name", "from-flag", "--quiet"}, &strings.Builder{}); err != nil {
		t.Fatal(err)
	}
	if got.Name != "from-flag" || got.TTL != 5*time.Second || got.Listen != "127.0.0.1:7070" || !got.Quiet {
		t.Errorf("got %+v", got)
	}
	if strings.Join(got.Etcd, " ") != "a:1 b:2" {
		t.Errorf("etcd endpoints from the environment: %q", got.Etcd)
	}
}

func TestParseReportsBadInput(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--nmae", "x"}, "--nmae"},
		{[]string{"--ttl", "soon"}, "--ttl"},
		{[]string{"stray"}, "stray"},
	} {
		var got sample
		err := Parse(&got, "sample", "A sample.", c.args, &strings.Builder{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "sample --help") {
			t.Errorf("%q: error %v does not name %q and the help", c.args, err, c.want)
		}
	}
}

func TestParsePrintsHelpAndReturns(t *testing.T) {
	var got sample
	var out strings.Builder
	if err := Parse(&got, "sample", "A sample.", []string{"--help"}, &out); !errors.Is(err, ErrHelp) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"A sample.", "--listen", "SPLASHDAM_LISTEN"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q:\n%s", want, out.String())
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "127.9.9.9:80": true, "[::1]:80": true, "localhost:80": true,
		"[::ffff:127.0.0.1]:80": true,
		":80":                   false, "0.0.0.0:80": false, "[::]:80": false, "10.0.0.1:80": false,
		"example.com:80": false, "localhost.example.com:80": false, "127.0.0.1": false, "": false,
	} {
		if got := IsLoopback(address); got != want {
			t.Errorf("IsLoopback(%q) = %v", address, got)
		}
	}
}

func TestCheckListen(t *testing.T) {
	for _, c := range []struct {
		address  string
		insecure bool
		want     string // part of the error, empty for none
	}{
		{"127.0.0.1:0", false, ""},
		{"localhost:http", false, ""},
		{"0.0.0.0:80", true, ""},
		{":80", true, ""},
		{":80", false, "every interface"},
		{"10.1.2.3:80", false, "no TLS"},
		{"10.1.2.3", true, "host:port"},
		{"127.0.0.1:", false, "port"},
		{"127.0.0.1:70000", false, "port"},
	} {
		err := CheckListen("listen", c.address, c.insecure)
		if c.want == "" && err != nil {
			t.Errorf("%q: %v", c.address, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "listen: ")) {
			t.Errorf("%q: got %v, want something about %q", c.address, err, c.want)
		}
	}
}
