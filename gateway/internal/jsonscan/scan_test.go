package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// decode builds what encoding/json would, with the scanner.
func decode(s *Scanner) any {
	switch s.Peek() {
	case Null:
		s.Null()
		return nil
	case Bool:
		return s.Bool()
	case Number:
		return json.Number(s.Raw())
	case String:
		return string(s.String())
	case Array:
		out := []any{}
		s.Open()
		for first := true; s.Element(first); first = false {
			out = append(out, decode(s))
		}
		return out
	case Object:
		out := map[string]any{}
		s.Open()
		for first := true; ; first = false {
			k, more := s.Key(first)
			if !more {
				return out
			}
			name := string(k)
			out[name] = decode(s)
		}
	}
	s.Skip() // fails
	return nil
}

// oracle is encoding/json with the scanner's stricter rules: UTF-8, and no half surrogate pairs.
func oracle(b []byte) (any, bool) {
	if !utf8.Valid(b) || !json.Valid(b) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	return v, d.Decode(&v) == nil && !hasLoneSurrogate(b)
}

func hasLoneSurrogate(b []byte) bool {
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		r, ok := hex4(b[i:])
		if !ok {
			i++
			continue
		}
		if r >= 0xd800 && r < 0xe000 {
			low, ok := hex4(b[min(i+6, len(b)):])
			if r >= 0xdc00 || !ok || low < 0xdc00 || low >= 0xe000 {
				return true
			}
			i += 6
		}
		i += 5
	}
	return false
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{`{}`, `[]`, `""`, `null`, `{"a":[1,2.5e-3,{"b":"\u00e9\n\ud83d\ude00"}],"c":true}`, `[1,]`,
		`{"a"}`, `{"a":1,}`, `"\ud800"`, `"\x"`, "\"\x01\"", "\"\xff\"", `01`, `-`, `1.`, `1e`, `tru`, `[1 2]`, ` [ 1 , 2 ] `,
		`{"a":1}x`, `"12345678901234567890\"end"`, `"ééééééééééé"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Count(b, []byte("["))+bytes.Count(b, []byte("{")) > MaxDepth {
			return
		}
		var s Scanner
		s.Reset(b)
		got := decode(&s)
		ok := s.End() == nil
		_, wantOK := oracle(b)
		if ok != wantOK {
			t.Fatalf("%q: taken %v (%v), encoding/json says %v", b, ok, s.Err(), wantOK)
		}
		s.Reset(b)
		raw := s.Raw()
		rawOK := s.End() == nil
		if wantRaw := utf8.Valid(b) && json.Valid(b); rawOK != wantRaw && !hasLoneSurrogate(b) {
			t.Fatalf("%q: Raw taken %v (%v), want %v", b, rawOK, s.Err(), wantRaw)
		} else if rawOK && string(raw) != strings.Trim(string(b), " \t\r\n") {
			t.Fatalf("%q: Raw is %q", b, raw)
		}
		if !ok {
			return
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		g, _ := json.Marshal(got)
		w, _ := json.Marshal(want)
		if !bytes.Equal(g, w) {
			t.Fatalf("%q: %s, want %s", b, g, w)
		}
	})
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "q\"b\\s/n\nt\tz\x00\x1f\x7f", "é\u2028😀", "\xff\xc3", "a\xc3(b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := AppendString(nil, s)
		var back string
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%q became %s: %v", s, b, err)
		}
		if want := strings.ToValidUTF8(s, "\uFFFD"); utf8.ValidString(s) && back != want {
			t.Fatalf("%q came back as %q", s, back)
		}
	})
}

func TestDepthIsBounded(t *testing.T) {
	for _, c := range []struct {
		depth int
		ok    bool
	}{{MaxDepth, true}, {MaxDepth + 1, false}, {1 << 20, false}} {
		var s Scanner
		s.Reset([]byte(strings.Repeat("[", c.depth) + strings.Repeat("]", c.depth)))
		s.Skip()
		if ok := s.End() == nil; ok != c.ok {
			t.Errorf("depth %d: taken %v, want %v (%v)", c.depth, ok, c.ok, s.Err())
		}
	}
}

func TestErrorsSayWhere(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":}`:   "at byte 5: a value should be here, not '}'",
		`{"a":1`:   "at byte 6: the text ends where ',' or '}' should be",
		`[1,]`:     "at byte 3: a value should be here, not ']'",
		`"abc`:     "at byte 4: the text ends where the end of a string should be",
		`"\ud800"`: "at byte 1: half of a surrogate pair",
	} {
		var s Scanner
		s.Reset([]byte(text))
		decode(&s)
		if err := s.End(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
