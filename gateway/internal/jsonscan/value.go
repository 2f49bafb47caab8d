package jsonscan

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// Raw reads any value and returns its text as given.
func (s *Scanner) Raw() []byte {
	s.space()
	start := s.i
	s.skip(MaxDepth)
	return s.Since(start)
}

// TooDeep fails where a value is nested deeper than MaxDepth, for callers that go down themselves.
func (s *Scanner) TooDeep() { s.fail("nested deeper than %d", MaxDepth) }

// Skip reads any value and drops it.
func (s *Scanner) Skip() { s.skip(MaxDepth) }

func (s *Scanner) skip(depth int) {
	kind := s.Peek()
	if depth == 0 && (kind == Array || kind == Object) {
		s.TooDeep()
		return
	}
	switch kind {
	case Null:
		s.word("null")
	case Bool:
		s.Bool()
	case Number:
		s.number()
	case String:
		s.skipString()
	case Array:
		s.Open()
		for first := true; s.Element(first); first = false {
			s.skip(depth - 1)
		}
	case Object:
		s.Open()
		for first := true; ; first = false {
			if !s.skipKey(first) {
				return
			}
			s.skip(depth - 1)
		}
	default:
		s.expected("a value")
	}
}

// skipKey is Key, but the name is only checked, so that skipping takes no memory.
func (s *Scanner) skipKey(first bool) bool {
	from := len(s.scratch)
	_, more := s.Key(first)
	s.scratch = s.scratch[:from]
	return more
}

// skipString checks a string without keeping it. Half a surrogate pair is grammar here: the text is kept
// as it was given.
func (s *Scanner) skipString() {
	s.i++
	start := s.i
	for s.i < len(s.b) {
		n, ascii := plain(s.b[s.i:])
		if !ascii && !utf8.Valid(s.b[s.i:s.i+n]) {
			s.i = start
			s.fail("a string that is not UTF-8")
			return
		}
		s.i += n
		if s.i >= len(s.b) {
			break
		}
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return
		case c != '\\':
			s.fail("a control character %q in a string", c)
			return
		case s.i+1 < len(s.b) && bytes.IndexByte([]byte(`"\/bfnrt`), s.b[s.i+1]) >= 0:
			s.i += 2
		default:
			if _, ok := hex4(s.b[s.i:]); !ok {
				s.fail("an escape that JSON does not have")
				return
			}
			s.i += 6
		}
	}
	s.expected("the end of a string")
}

func (s *Scanner) word(w string) {
	if s.err != nil {
		return
	}
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		s.expected("a value")
		return
	}
	s.i += len(w)
}

// Null reads a null if it is next.
func (s *Scanner) Null() bool {
	if s.Peek() != Null {
		return false
	}
	s.word("null")
	return s.err == nil
}

// Bool reads true or false.
func (s *Scanner) Bool() bool {
	switch s.space() {
	case 't':
		s.word("true")
		return s.err == nil
	case 'f':
		s.word("false")
		return false
	}
	s.expected("true or false")
	return false
}

// number reads the text of a number.
func (s *Scanner) number() []byte {
	start := s.i
	if s.at('-') {
		s.i++
	}
	if s.at('0') {
		s.i++
	} else if !s.digits() {
		return nil
	}
	if s.at('.') {
		s.i++
		if !s.digits() {
			return nil
		}
	}
	if s.at('e') || s.at('E') {
		s.i++
		if s.at('+') || s.at('-') {
			s.i++
		}
		if !s.digits() {
			return nil
		}
	}
	return s.Since(start)
}

func (s *Scanner) at(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }

func (s *Scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	if s.i == start {
		s.expected("a digit")
		return false
	}
	return true
}

// Int reads a whole number; false means that the next value is something else (it was skipped), or does
// not fit 64 bits.
func (s *Scanner) Int() (int64, bool) {
	if s.Peek() != Number {
		s.Skip()
		return 0, false
	}
	text := s.number()
	if s.err != nil {
		return 0, false
	}
	v, err := strconv.ParseInt(string(text), 10, 64)
	return v, err == nil
}
