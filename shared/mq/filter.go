package mq

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Bounds of a filter.
const (
	MaxFilterHeaders = 16
	MaxFilterBytes   = 4 << 10 // of all names and values
)

// Filter says which messages a group wants by their headers: all conditions must hold. It is written as a JSON object
// whose members are header names, each with a text, a list of texts of which one must match, or {"prefix": text}.
type Filter []HeaderMatch

// HeaderMatch is one condition: one of the message's headers of this name (in any case) has one of the values, or
// begins with Prefix if that is set.
type HeaderMatch struct {
	Name   string
	Values []string
	Prefix string
}

// Match says whether a message with these headers is wanted.
func (f Filter) Match(headers []Header) bool {
	for i := range f {
		if !slices.ContainsFunc(headers, func(h Header) bool { return strings.EqualFold(h.Name, f[i].Name) && f[i].takes(h.Value) }) {
			return false
		}
	}
	return true
}

func (m *HeaderMatch) takes(value string) bool {
	if m.Prefix != "" {
		return strings.HasPrefix(value, m.Prefix)
	}
	return slices.Contains(m.Values, value)
}

// MarshalJSON writes the object.
func (f Filter) MarshalJSON() ([]byte, error) {
	out := make(map[string]any, len(f))
	for _, m := range f {
		switch {
		case m.Prefix != "":
			out[m.Name] = map[string]string{"prefix": m.Prefix}
		case len(m.Values) == 1:
			out[m.Name] = m.Values[0]
		default:
			out[m.Name] = m.Values
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the object.
func (f *Filter) UnmarshalJSON(b []byte) error {
	var in map[string]json.RawMessage
	if json.Unmarshal(b, &in) != nil {
		return errors.New("a filter is an object of headers")
	}
	*f = nil
	for name, raw := range in {
		m := HeaderMatch{Name: name}
		var one string
		var prefix struct{ Prefix *string }
		switch {
		case string(raw) == "null":
			continue
		case json.Unmarshal(raw, &one) == nil:
			m.Values = []string{one}
		case json.Unmarshal(raw, &m.Values) == nil && len(m.Values) > 0:
		case json.Unmarshal(raw, &prefix) == nil && prefix.Prefix != nil && *prefix.Prefix != "":
			m.Values, m.Prefix = nil, *prefix.Prefix
		default:
			return fmt.Errorf(`header %q is to be a text, a list of texts or {"prefix": text}`, name)
		}
		*f = append(*f, m)
	}
	slices.SortFunc(*f, func(a, b HeaderMatch) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// check reports what is wrong with a filter.
func (f Filter) check(c *checks, at string) {
	c.want(len(f) <= MaxFilterHeaders, at, "names at most %d headers", MaxFilterHeaders)
	c.want(f.Size() <= MaxFilterBytes, at, "has at most %d bytes of names and values", MaxFilterBytes)
	for i, m := range f {
		c.want(m.Name != "" && len(m.Values) > 0 != (m.Prefix != ""), at, "has names with one text, some texts or a prefix each")
		c.want(i == 0 || f[i-1].Name < m.Name, at, "names each header once")
		twice := slices.ContainsFunc(f[:i], func(o HeaderMatch) bool { return strings.EqualFold(o.Name, m.Name) && o.Name != m.Name })
		c.want(!twice, at, "names header %.80q twice: case does not tell names apart", m.Name)
	}
}

// Size is about how many bytes the stored form has.
func (f Filter) Size() (n int) {
	for _, m := range f {
		n += len(m.Name) + len(m.Prefix) + 4
		for _, v := range m.Values {
			n += len(v) + 1
		}
	}
	return n
}

// Append appends the filter's stored form: count | each: name | prefix | count | values.
func (f Filter) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(f)))
	for _, m := range f {
		b = AppendBytes(AppendBytes(b, m.Name), m.Prefix)
		b = binary.AppendUvarint(b, uint64(len(m.Values)))
		for _, v := range m.Values {
			b = AppendBytes(b, v)
		}
	}
	return b
}

// ReadFilter reads what Append wrote.
func ReadFilter(r *Reader) (f Filter) {
	for range r.Count(3) {
		m := HeaderMatch{Name: r.String(), Prefix: r.String()}
		for range r.Count(1) {
			m.Values = append(m.Values, r.String())
		}
		f = append(f, m)
	}
	return f
}
