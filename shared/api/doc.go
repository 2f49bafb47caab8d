// Package api holds the JSON bodies of the public HTTP API: what a request may say and what an answer
// holds. The gateway answers with them and the Go client reads them, so that both mean the same. They
// carry no behaviour beyond reading their own encodings.
//
// Times are RFC 3339 in UTC, durations text ("30s"), sizes bytes. A field with omitempty or omitzero is
// left out where it says nothing. In answers more fields may appear in later versions; readers ignore what
// they don't know. In requests an unknown field is an error.
package api
