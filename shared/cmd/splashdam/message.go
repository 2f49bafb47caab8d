package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/splashdam/splashdam/shared/api"
)

type messageCmd struct {
	ID       string `arg:"" help:"Message id."`
	Archived bool   `name:"include-archived" help:"Look into the archive too."`
	Raw      bool   `help:"Print the value alone."`
}

func (k *messageCmd) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	ask := s.client.Message
	if k.Archived {
		ask = s.client.ArchivedMessage
	}
	m, err := ask(ctx, k.ID)
	if err != nil {
		return err
	}
	value, err := m.Bytes()
	if err != nil {
		return err
	}
	if k.Raw { // byte for byte: it may go into a file
		_, err = s.out.Write(value)
		return err
	}
	key, err := m.KeyBytes()
	if err != nil {
		return err
	}
	return s.show(m, func() string { return renderMessage(&m, key, value, s.width) })
}

// renderMessage shows what came with a message, and its value, as much of it as one looks at.
func renderMessage(m *api.Message, key, value []byte, width int) string {
	at := place(m.Partition, m.Offset)
	if m.State != "" {
		at = fmt.Sprintf("partition %d, %s until %s", m.Partition, m.State, stamp(m.DeliverAt))
	}
	rows := [][2]string{{"message", m.ID + " of topic " + m.Topic}, {"place", at}, {"time", stamp(m.Timestamp)}, {"lane", m.Lane}}
	add := func(name, text string) {
		if text != "" {
			rows = append(rows, [2]string{name, oneLine(text)})
		}
	}
	if key != nil {
		add("key", keyText(key))
	}
	add("content type", m.ContentType)
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		add("header", name+"="+m.Headers[name])
	}
	if !m.ExpiresAt.IsZero() {
		add("expires", stamp(m.ExpiresAt))
	}
	const shown = 64 << 10
	add("value", string(value[:min(len(value), shown)]))
	return pairs(rows, width)
}
