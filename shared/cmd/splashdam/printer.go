package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
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
		return p.row(place(m.Partition, m.Offset), stampOf(m), keyText(key), value)
	}
	return p.document(m)
}

// delivery prints one that was received. Its JSON is that of the API, with the receipt.
func (p *printer) delivery(d *client.Delivery) error {
	switch p.format {
	case "raw":
		return p.raw(d.Value)
	case "table":
		return p.row(place(d.Partition, d.Offset), d.Timestamp.UTC().Format(rowTime), keyText(d.Key), d.Value)
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

// rowTime is short: one who looks at messages one by one knows the day.
const rowTime = "15:04:05.000"

func stampOf(m *api.Message) string { return m.Timestamp.UTC().Format(rowTime) }

func keyText(key []byte) string {
	if key == nil {
		return "-"
	}
	return oneLine(string(key))
}

// row prints one line. The columns have fixed widths, since what comes later is not known: 12 for the
// place, 12 for the time, 12 for the key, the rest for the value.
func (p *printer) row(at, when, key string, value []byte) error {
	if !p.headed {
		p.headed = true
		if err := p.line("PART/OFFSET", "TIME (UTC)", "KEY", "VALUE", styleHead); err != nil {
			return err
		}
	}
	const shown = 4 << 10 // of a value, also with --wide: this is to look at
	text := oneLine(string(value[:min(len(value), shown)]))
	return p.line(at, when, key, text, stylePlain)
}

func (p *printer) line(at, when, key, value string, s style) error {
	if p.width > 0 {
		key, value = cut(key, 12), cut(value, p.width-3*(12+len(gap)))
	}
	text := strings.TrimRight(fmt.Sprintf("%-12s  %-12s  %-12s  %s", at, when, key, value), " ")
	_, err := p.out.WriteString(p.paint(s, text) + "\n")
	return err
}
