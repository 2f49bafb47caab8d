package archive

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gocloud.dev/blob/azureblob"

	"github.com/splashdam/splashdam/shared/mqerr"
)

func TestCheckURL(t *testing.T) {
	for _, good := range []string{"file:///mnt/archive", "s3://bucket?region=eu-central-1", "gs://bucket", "azblob://container?storage_account=one",
		"s3://bucket?endpoint=http://127.0.0.1:9000&region=x&s3ForcePathStyle=true"} {
		if err := CheckURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"/mnt/archive": "kind", "http://bucket": "kind", "": "kind", "://": "kind", "file://": "directory", "s3://": "bucket",
		"s3://name:topsecret@bucket": "environment", "s3://bucket?endpoint=http://name:topsecret@host": "environment",
		"s3://bucket?endpoint=http://[": "endpoint",
	} {
		err := CheckURL(bad)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestMasked(t *testing.T) {
	for text, want := range map[string]string{
		`Get "https://one.blob.core.windows.net/c/k?sig=abc%2F&se=2026": dial tcp: refused`: `Get "https://one.blob.core.windows.net/c/k?sig=***&se=***": dial tcp: refused`,
		"s3://bucket?region=eu&endpoint=http://host&token=x":                                "s3://bucket?region=eu&endpoint=http://host&token=***",
		"https://name:word@host/path":                                                       "https://***@host/path",
		"file:///mnt/archive":                                                               "file:///mnt/archive",
		"is it up? x=1 & y=2, and mail to me@host.de":                                       "is it up? x=1 & y=2, and mail to me@host.de",
	} {
		if got := Shown(text); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	cause := errors.New("long\n\n " + strings.Repeat("word ", 1000))
	if err := unavailable("reading", cause); !errors.Is(err, cause) || len(err.Error()) > maxErrorText+100 || strings.Contains(err.Error(), "\n") {
		t.Errorf("%d bytes: %v", len(err.Error()), err)
	}
}

// A shared access signature is part of the address of every call to Azure, and no error shows it.
func TestAzureHidesItsSignature(t *testing.T) {
	signed := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed = signed || r.URL.Query().Get("sig") == "topsecret"
		http.Error(w, "no", http.StatusForbidden)
	}))
	t.Cleanup(server.Close)
	const signature = "sv=2026&sig=topsecret"
	for name, value := range map[string]string{"AZURE_STORAGE_ACCOUNT": "", "AZURE_STORAGE_CONNECTION_STRING": "", "AZURE_STORAGE_SAS_TOKEN": signature} {
		t.Setenv(name, value)
	}
	address, err := azureblob.NewServiceURL(&azureblob.ServiceURLOptions{AccountName: "one", SASToken: signature, Protocol: "http",
		StorageDomain: strings.TrimPrefix(server.URL, "http://"), IsLocalEmulator: true})
	must(t, err)
	client, err := azureblob.NewDefaultClient(address, "attic")
	must(t, err)
	bucket, err := azureblob.OpenBucket(t.Context(), client, nil)
	must(t, err)
	a := use(bucket, "cluster")
	t.Cleanup(func() { must(t, a.Close()) })
	_, err = a.List(t.Context(), testPartition)
	if !signed || !mqerr.Is(err, mqerr.ArchiveUnavailable) || strings.Contains(err.Error(), "topsecret") {
		t.Errorf("signed %v: %v", signed, err)
	}
}
