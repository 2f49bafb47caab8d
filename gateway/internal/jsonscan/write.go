package jsonscan

import (
	"unicode/utf8"
	"unsafe"
)

const hex = "0123456789abcdef"

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD, so that what is
// written is always valid JSON; whoever must keep bytes checks with utf8 first and writes base64.
func AppendString[T ~string | ~[]byte](b []byte, s T) []byte {
	text := bytesOf(s)
	b = append(b, '"')
	for len(text) > 0 {
		n, ascii := plain(text)
		if ascii || utf8.Valid(text[:n]) {
			b = append(b, text[:n]...)
		} else {
			b = appendValid(b, text[:n])
		}
		if text = text[n:]; len(text) > 0 {
			b = appendEscape(b, text[0])
			text = text[1:]
		}
	}
	return append(b, '"')
}

// bytesOf views s, which is only read; a string's header is the begin of a slice's.
func bytesOf[T ~string | ~[]byte](s T) []byte {
	text := *(*string)(unsafe.Pointer(&s))
	return unsafe.Slice(unsafe.StringData(text), len(text))
}

// appendValid appends text with U+FFFD for each byte that is not UTF-8.
func appendValid(b, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		b = utf8.AppendRune(b, r)
		text = text[n:]
	}
	return b
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
