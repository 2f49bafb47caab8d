package wire

import (
	"bytes"
	"strconv"
)

// Head makes the head of a POST request with a body of length bytes.
func Head(path, contentType string, length int) []byte {
	return AppendHead(nil, path, contentType, length)
}

// AppendHead appends what Head makes.
func AppendHead(b []byte, path, contentType string, length int) []byte {
	b = appendPost(b, path, contentType)
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(length), 10)
	return append(b, "\r\n\r\n"...)
}

func appendPost(b []byte, path, contentType string) []byte {
	b = append(b, "POST "...)
	b = append(b, path...)
	b = append(b, " HTTP/1.1\r\nHost: splashdam\r\nContent-Type: "...)
	b = append(b, contentType...)
	return append(b, "\r\n"...)
}

// Fields calls each with every value of a JSON string field, found by its text: `"receipt":"`. It takes the
// values to hold no escapes, and relies on other strings holding their quotes escaped.
func Fields(body []byte, field string, each func(value []byte)) {
	mark := []byte(`"` + field + `":"`)
	for {
		at := bytes.Index(body, mark)
		if at < 0 {
			return
		}
		body = body[at+len(mark):]
		end := bytes.IndexByte(body, '"')
		if end < 0 {
			return
		}
		each(body[:end])
		body = body[end+1:]
	}
}

// Field is the first value of a JSON string field, or "".
func Field(body []byte, field string) (value string) {
	Fields(body, field, func(v []byte) {
		if value == "" {
			value = string(v)
		}
	})
	return value
}
