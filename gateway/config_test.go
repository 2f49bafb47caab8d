package gateway

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/config"
)

// The defaults of the flags and DefaultConfig are the same.
func TestFlagsAgreeWithDefaults(t *testing.T) {
	var got Config
	if err := config.Parse(&got, "gateway", "", []string{"--etcd", "127.0.0.1:2379"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	want := DefaultConfig()
	want.Etcd = []string{"127.0.0.1:2379"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("flags give %+v, DefaultConfig %+v", got, want)
	}
}

func TestValidateNamesEveryProblem(t *testing.T) {
	good := DefaultConfig()
	good.Etcd = []string{"127.0.0.1:1"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	bad := Config{Name: "../x", Listen: "0.0.0.0:80", Advertise: "nowhere", MaxBuffered: -1}
	err := bad.Validate()
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"name:", "no TLS", "advertise:", "etcd:", "request timeout:", "header timeout:", "body timeout:",
		"idle timeout:", "lease TTL:", "max header bytes:", "max body bytes:", "max buffered:", "max waiting:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	good.Listen, good.Insecure = "0.0.0.0:80", true
	if err := good.Validate(); err != nil {
		t.Errorf("insecure: %v", err)
	}
}
