package archive

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"gocloud.dev/blob"
)

// CheckURL says what is wrong with a bucket's URL, without repeating it: it may hold what is secret.
func CheckURL(text string) error {
	_, err := bucketURL(text)
	return err
}

// Shown is a bucket's URL as it may be logged: with the values of plain parameters only.
func Shown(text string) string { return masked(text) }

// bucketURL makes a file URL safe: a half-written object lies beside its final name, as a rename must not cross disks, and no
// second file goes with it.
func bucketURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || !blob.DefaultURLMux().ValidBucketScheme(u.Scheme) {
		return "", fmt.Errorf("must be the URL of a bucket of a kind that is built in (%s), like file:///mnt/archive or s3://bucket?region=eu-central-1",
			strings.Join(blob.DefaultURLMux().BucketSchemes(), ", "))
	}
	q := u.Query()
	endpoint, err := url.Parse(q.Get("endpoint"))
	switch {
	case u.User != nil || err == nil && endpoint.User != nil:
		return "", errors.New("must hold no name and no password: credentials come from the environment, or from the machine's role")
	case err != nil:
		return "", errors.New("endpoint: must be a URL")
	case u.Scheme == "file" && u.Path == "":
		return "", errors.New("must name a directory, like file:///mnt/archive")
	case u.Scheme != "file" && u.Host == "":
		return "", fmt.Errorf("must name a bucket, like %s://bucket", u.Scheme)
	case u.Scheme == "file":
		for name, value := range map[string]string{"create_dir": "true", "no_tmp_dir": "true", "metadata": "skip"} {
			if !q.Has(name) {
				q.Set(name, value)
			}
		}
		u.RawQuery = q.Encode()
	}
	return u.String(), nil
}

// secrets are the places in which a URL can hold what must not be shown: user and password, and the values of parameters (a
// shared access signature of Azure is one).
var secrets = regexp.MustCompile(`(://)[^/?#\s"']*@|([?&][^=&\s"']*=)[^&\s"']*`)

// plain are the parameters that hold no secret. An endpoint with a password was refused.
var plain = []string{"endpoint", "region", "use_path_style", "s3ForcePathStyle", "request_checksum_calculation", "storage_account"}

// masked is a text without the secrets of the URLs in it.
func masked(text string) string {
	return secrets.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "://") {
			return "://***@"
		}
		name, _, _ := strings.Cut(found[1:], "=")
		if slices.Contains(plain, name) {
			return found
		}
		return found[:len(name)+2] + "***"
	})
}

// maxErrorText bounds what an answer or a log line repeats of a driver's error: some hold the whole response.
const maxErrorText = 400

// maskedError is an error of a driver as it may be logged and answered.
type maskedError struct{ err error }

func (e maskedError) Error() string {
	text := masked(strings.Join(strings.Fields(e.err.Error()), " "))
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + "..."
	}
	return text
}

func (e maskedError) Unwrap() error { return e.err }
