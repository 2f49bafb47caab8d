// Package jsonscan reads and writes the JSON of the hot calls (publish, receive, settle) without
// reflection: a pull scanner that shares memory with its input, and appenders.
//
// The scanner takes exactly the grammar of RFC 8259, with strings that are valid UTF-8. It is strict
// where a lenient reader would change what the user sent: a lone surrogate is an error, not U+FFFD.
package jsonscan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is how deep values may be nested.
const MaxDepth = 512

// Kind is what a value is.
type Kind uint8

// The kinds. Invalid is anything that begins no value.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// Name is the kind's name for error texts.
func (k Kind) Name() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// SyntaxError says where the input is not JSON.
type SyntaxError struct {
	Offset int
	Detail string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("at byte %d: %s", e.Offset, e.Detail) }

// Scanner pulls values from one document. The first error sticks; after it every method answers with
// zero values, so that callers look at Err once. Its zero value reads nothing; see Reset.
type Scanner struct {
	b       []byte
	i       int
	err     error
	scratch []byte // unescaped strings live here until Release
}

// Reset begins to read b, which must not change while what was read is in use.
func (s *Scanner) Reset(b []byte) { s.b, s.i, s.err, s.scratch = b, 0, nil, s.scratch[:0] }

// Release allows unescaped strings that were returned so far to be overwritten.
func (s *Scanner) Release() { s.scratch = s.scratch[:0] }

// Err is the first error, a *SyntaxError.
func (s *Scanner) Err() error { return s.err }

// Offset is where the scanner stands.
func (s *Scanner) Offset() int { return s.i }

// Since is the input from offset to here.
func (s *Scanner) Since(offset int) []byte {
	if s.err != nil {
		return nil
	}
	return s.b[offset:s.i:s.i]
}

func (s *Scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = &SyntaxError{s.i, fmt.Sprintf(format, args...)}
	}
}

// space skips white space and returns the next byte, or 0 at the end or after an error.
func (s *Scanner) space() byte {
	if s.err != nil {
		return 0
	}
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// Peek says what the next value is.
func (s *Scanner) Peek() Kind {
	switch c := s.space(); {
	case c == '"':
		return String
	case c == '{':
		return Object
	case c == '[':
		return Array
	case c == 'n':
		return Null
	case c == 't' || c == 'f':
		return Bool
	case c == '-' || c >= '0' && c <= '9':
		return Number
	}
	return Invalid
}

// Open consumes the '{' or '[' that Peek announced.
func (s *Scanner) Open() {
	if c := s.space(); c != '{' && c != '[' {
		s.expected("an object or an array")
		return
	}
	s.i++
}

func (s *Scanner) expected(what string) {
	if s.err != nil {
		return
	}
	if len(bytes.TrimSpace(s.b)) == 0 {
		s.fail("the text is empty")
		return
	}
	if s.i >= len(s.b) {
		s.fail("the text ends where %s should be", what)
		return
	}
	r, _ := utf8.DecodeRune(s.b[s.i:])
	s.fail("%s should be here, not %q", what, r)
}

// Key goes to the next member of an object and returns its name, or false after the last one. first says
// that nothing of the object was read yet.
func (s *Scanner) Key(first bool) ([]byte, bool) {
	c := s.space()
	if c == '}' && s.err == nil {
		s.i++
		return nil, false
	}
	if !first {
		if c != ',' {
			s.expected("',' or '}'")
			return nil, false
		}
		s.i++
		c = s.space()
	}
	if c != '"' {
		s.expected("a name in quotes")
		return nil, false
	}
	name := s.String()
	if s.space() != ':' {
		s.expected("':'")
		return nil, false
	}
	s.i++
	return name, s.err == nil
}

// Element goes to the next element of an array, or answers false after the last one.
func (s *Scanner) Element(first bool) bool {
	c := s.space()
	if c == ']' && s.err == nil {
		s.i++
		return false
	}
	if !first {
		if c != ',' {
			s.expected("',' or ']'")
			return false
		}
		s.i++
		c = s.space()
		if c == ']' {
			s.expected("a value")
			return false
		}
	}
	return s.err == nil
}

// End checks that nothing but white space follows.
func (s *Scanner) End() error {
	s.space()
	if s.err == nil && s.i < len(s.b) {
		s.fail("text after the end of the value")
	}
	return s.err
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain is how many bytes from b's start are neither quote, backslash nor control; ascii says that none of
// them is beyond ASCII. Eight bytes at a time: values are most of what a gateway reads.
func plain(b []byte) (n int, ascii bool) {
	var high uint64
	for ; len(b)-n >= 8; n += 8 {
		x := binary.LittleEndian.Uint64(b[n:])
		q, bs := x^(ones*'"'), x^(ones*'\\')
		stop := ((q - ones) & ^q) | ((bs - ones) & ^bs) | ((x - ones*' ') & ^x)
		if stop &= highs; stop != 0 {
			k := bits.TrailingZeros64(stop) / 8
			high |= x & highs & (1<<(8*k) - 1)
			return n + k, high == 0
		}
		high |= x & highs
	}
	for ; n < len(b); n++ {
		c := b[n]
		if c == '"' || c == '\\' || c < ' ' {
			break
		}
		high |= uint64(c & 0x80)
	}
	return n, high == 0
}

// String reads a string. Without escapes the result shares memory with the input, else with the
// scanner until Release.
func (s *Scanner) String() []byte {
	if s.space() != '"' {
		s.expected("a string")
		return nil
	}
	s.i++
	start := s.i
	n, ascii := plain(s.b[s.i:])
	s.i += n
	if !ascii && !utf8.Valid(s.b[start:s.i]) {
		s.fail("a string that is not UTF-8")
		return nil
	}
	if s.i < len(s.b) && s.b[s.i] == '"' {
		s.i++
		return s.b[start : s.i-1 : s.i-1]
	}
	return s.escaped(start)
}

// escaped reads on in a string whose first special byte is not the closing quote.
func (s *Scanner) escaped(start int) []byte {
	from := len(s.scratch)
	s.scratch = append(s.scratch, s.b[start:s.i]...)
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			out := s.scratch[from:]
			return out[:len(out):len(out)]
		case c == '\\':
			if !s.escape() {
				return nil
			}
		case c < ' ':
			s.fail("a control character %q in a string", c)
			return nil
		default:
			n, ascii := plain(s.b[s.i:])
			part := s.b[s.i : s.i+n]
			if !ascii && !utf8.Valid(part) {
				s.fail("a string that is not UTF-8")
				return nil
			}
			s.scratch = append(s.scratch, part...)
			s.i += n
		}
	}
	s.expected("the end of a string")
	return nil
}

// escape appends what an escape sequence stands for.
func (s *Scanner) escape() bool {
	if s.i+1 >= len(s.b) {
		s.fail("the text ends within an escape")
		return false
	}
	c := s.b[s.i+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return s.unicode()
	default:
		s.fail("an escape that JSON does not have")
		return false
	}
	s.scratch = append(s.scratch, c)
	s.i += 2
	return true
}

func (s *Scanner) unicode() bool {
	r, ok := hex4(s.b[s.i:])
	if !ok {
		s.fail("\\u without four hex digits")
		return false
	}
	n := 6
	if r >= 0xd800 && r < 0xe000 {
		low, ok := hex4(s.b[s.i+6:])
		if r >= 0xdc00 || !ok || low < 0xdc00 || low >= 0xe000 {
			s.fail("half of a surrogate pair")
			return false
		}
		r = (r-0xd800)<<10 + (low - 0xdc00) + 0x10000
		n = 12
	}
	s.scratch = utf8.AppendRune(s.scratch, r)
	s.i += n
	return true
}

// hex4 reads \uHHHH.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
