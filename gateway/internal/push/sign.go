package push

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"time"
)

// signature is the value of webhook-signature as Standard Webhooks has it: for each key v1, and the HMAC-SHA256 of
// id.seconds.body, with a space between.
func signature(keys [][]byte, id string, at time.Time, body []byte) string {
	var b []byte
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id))
		mac.Write([]byte{'.'})
		mac.Write(strconv.AppendInt(nil, at.Unix(), 10))
		mac.Write([]byte{'.'})
		mac.Write(body)
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = append(b, "v1,"...)
		b = base64.StdEncoding.AppendEncode(b, mac.Sum(nil))
	}
	return string(b)
}
