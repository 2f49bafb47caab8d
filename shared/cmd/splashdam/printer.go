package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// printer writes messages as they come: in a table of fixed columns, as JSON (one a line), as YAML documents,
// or the values alone.
type printer struct {
	out    *bufio.Writer
	format string
	width  int
	paint  painter
	headed bool
}

func (s *session) printer(raw bool) *printer {
	p := &printer{out: bufio.NewWriterSize(s.out, 64<<10), format: s.format, width: s.width, paint: s.painter()}
	if raw {
		p.format = "raw"
	}
	return p
}

func (p *printer) flush() error { return p.out.Flush() }

// message prints one that was read.
func (p *printer) message(m *api.Message) error {
	switch p.format {
	case "table", "raw":
		value, err := m.Bytes()
		if err != nil {
			return err
		}
		key, err := m.KeyBytes()
		if err != nil {
			return err
		}
		if p.format == "raw" {
			return p.raw(value)
		}
		return p.row(m.ID, place(m.Partition, m.Offset), m.Timestamp, keyText(key), value)
	}
	return p.document(m)
}

// delivery prints one that was received. Its JSON is that of the API, with the receipt.
func (p *printer) delivery(d *client.Delivery) error {
	switch p.format {
	case "raw":
		return p.raw(d.Value)
	case "table":
		return p.row(d.ID, place(d.Partition, d.Offset), d.Timestamp, keyText(d.Key), d.Value)
	}
	out := api.Delivery{Message: api.Message{ID: d.ID, Topic: d.Topic, Partition: d.Partition, Offset: d.Offset,
		ContentType: d.ContentType, Headers: d.Headers, Lane: d.Lane, Timestamp: d.Timestamp},
		Receipt: d.Receipt, Fence: d.Fence, Attempt: d.Attempt, LeaseExpiresAt: d.LeaseExpiresAt}
	out.Value, out.Encoding = textOf(d.Value)
	if d.Key != nil {
		key, encoding := textOf(d.Key)
		out.Key = &key
		if encoding != api.EncodingUTF8 {
			out.KeyEncoding = encoding
		}
	}
	return p.document(out)
}

func textOf(b []byte) (text, encoding string) {
	if utf8.Valid(b) {
		return string(b), api.EncodingUTF8
	}
	return base64.StdEncoding.EncodeToString(b), api.EncodingBase64
}

func (p *printer) raw(value []byte) error {
	_, err := p.out.Write(append(value, '\n'))
	return err
}

func (p *printer) document(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if p.format == "yaml" {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.out, "---\n%s", text)
		return err
	}
	_, err = p.out.Write(append(text, '\n'))
	return err
}

// rowTime is the time of a row in at most 12 columns: of today to the millisecond, else with its day.
func rowTime(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	switch {
	case at.Year() != now.Year():
		return at.Format(time.DateOnly)
	case at.YearDay() != now.YearDay():
		return at.Format("01-02 15:04")
	}
	return at.Format("15:04:05.000")
}

func keyText(key []byte) string {
	if key == nil {
		return "-"
	}
	return oneLine(string(key))
}

// none says that there was nothing to print, where a person reads it; who interrupted the wait knows.
func (p *printer) none(s *session) {
	if p.format == "table" && !p.headed && s.ctx.Err() == nil {
		fmt.Fprintln(s.err, "no messages")
	}
}

// row prints one line, the id first: it is what trace takes.
func (p *printer) row(id, at string, when time.Time, key string, value []byte) error {
	if !p.headed {
		p.headed = true
		if err := p.line("ID", "PART/OFFSET", "TIME (UTC)", "KEY", "VALUE", styleHead); err != nil {
			return err
		}
	}
	const shown = 4 << 10 // of a value, also with --wide: this is to look at
	text := oneLine(string(value[:min(len(value), shown)]))
	return p.line(id, at, rowTime(when, time.Now()), key, text, stylePlain)
}

// line writes columns of fixed widths, since what comes later is not known. A longer id or place is never cut;
// the value has what is left of the line.
func (p *printer) line(id, at, when, key, value string, s style) error {
	if p.width > 0 {
		key = cut(key, 10)
	}
	text := fmt.Sprintf("%-8s  %-11s  %-12s  %-10s  ", id, at, when, key)
	if p.width > 0 {
		value = cut(value, max(p.width-utf8.RuneCountInString(text), 8))
	}
	text = strings.TrimRight(text+value, " ")
	_, err := p.out.WriteString(p.paint(s, text) + "\n")
	return err
}
