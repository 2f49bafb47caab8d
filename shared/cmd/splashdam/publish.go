package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mq"
)

type publishCmd struct {
	Topic       string            `arg:"" help:"Topic."`
	Files       []string          `arg:"" optional:"" help:"Files, each one message, byte for byte (with --lines: one a line); - and default: stdin."`
	Lines       bool              `short:"l" help:"Each line is a message."`
	Key         *string           `short:"k" help:"Key of the messages: keeps them in one partition, in order."`
	Header      map[string]string `short:"H" help:"Headers, NAME=VALUE." mapsep:"none"`
	ContentType string            `short:"t" help:"Content type of the messages."`
	Partition   *uint32           `help:"Partition, instead of the choice by key."`
	Lane        string            `enum:"critical,high,normal,low,background" default:"normal" help:"Priority of the messages: ${enum}."`
	TTL         time.Duration     `name:"ttl" help:"Groups do not get the messages later than that (30s, 24h)."`
	Delay       time.Duration     `xor:"time" blank:"" help:"How long the messages wait before they are delivered (5m, 24h)."`
	At          time.Time         `xor:"time" help:"When the messages are delivered (RFC 3339: 2026-12-24T18:00:00Z)."`
	Batch       int               `default:"1000" help:"Lines sent at once."`
	Idempotency string            `name:"idempotency-key" help:"Key that makes it safe to run this again within 10 minutes: what is stored already is not stored twice. With several messages each gets KEY/NUMBER."`

	sent int // messages so far
}

func (p *publishCmd) Run(s *session) error {
	if p.Lines {
		return p.lines(s)
	}
	if len(p.Files) > 1 && p.Idempotency != "" {
		return p.inputs(s, func(s *session, r io.Reader, name string) error {
			p.sent++
			return p.one(s, r, name)
		})
	}
	return p.inputs(s, p.one)
}

// inputs gives each file to use, or stdin where none is named; "-" is stdin too.
func (p *publishCmd) inputs(s *session, use func(s *session, r io.Reader, name string) error) error {
	if len(p.Files) == 0 {
		return use(s, s.in, "stdin")
	}
	for _, path := range p.Files {
		if path == "-" {
			if err := use(s, s.in, "stdin"); err != nil {
				return err
			}
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			return wrongUsage("%v", err)
		}
		err = use(s, f, path)
		_ = f.Close() // it was only read
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *publishCmd) message(value []byte) client.Message {
	lane := p.Lane
	if lane == mq.LaneNormal.String() {
		lane = "" // as it is when nothing is said
	}
	m := client.Message{Key: p.Key, Value: value, ContentType: p.ContentType, Headers: p.Header, Partition: p.Partition, Lane: lane, TTL: p.TTL,
		IdempotencyKey: p.Idempotency, Delay: p.Delay, DeliverAt: p.At}
	if p.Idempotency != "" && p.sent > 0 {
		m.IdempotencyKey = fmt.Sprint(p.Idempotency, "/", p.sent)
	}
	return m
}

// one publishes all of r as one message. More than the largest message that any topic takes is not read.
func (p *publishCmd) one(s *session, r io.Reader, name string) error {
	value, err := io.ReadAll(io.LimitReader(r, mq.LargestMaxMessageBytes+1))
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if len(value) > mq.LargestMaxMessageBytes {
		return fmt.Errorf("%s has more than %d bytes, which is the largest message there can be", name, mq.LargestMaxMessageBytes)
	}
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.Publish(ctx, p.Topic, p.message(value))
	if err != nil {
		return err
	}
	return s.show(out, func() string {
		text := fmt.Sprintf("%s  partition %d  offset %d", out.ID, out.Partition, out.Offset)
		if !out.DeliverAt.IsZero() {
			text = fmt.Sprintf("%s  partition %d  due at %s", out.ID, out.Partition, stamp(out.DeliverAt))
		}
		if out.Duplicate && p.Idempotency != "" { // else it is a lost answer that was asked for again
			text += "  (was stored before)"
		}
		return text + "\n"
	})
}

// published counts what became of lines.
type published struct {
	Published int `json:"published"`
	// Duplicates are among those published: an earlier run stored them.
	Duplicates int `json:"duplicates,omitempty"`
	Failed     int `json:"failed"`
}

func (t *published) text() string {
	if t.Duplicates > 0 {
		return fmt.Sprintf("%d published (%d of them before), %d failed\n", t.Published, t.Duplicates, t.Failed)
	}
	return fmt.Sprintf("%d published, %d failed\n", t.Published, t.Failed)
}

// sentLine is a line on its way.
type sentLine struct {
	name   string
	number int
	future *client.Future
}

// maxTold bounds how many failures are told one by one.
const maxTold = 20

// lines publishes each line of the inputs. Answers are taken in the order of the lines by a goroutine of
// its own, so that reading goes on; the queue between is as long as the publisher's buffer.
func (p *publishCmd) lines(s *session) error {
	publisher := s.client.Publisher(p.Topic, client.PublisherOptions{MaxMessages: p.Batch, Linger: 20 * time.Millisecond})
	sent := make(chan sentLine, 10_000)
	var total published
	var first error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for line := range sent {
			<-line.future.Done()
			out, err := line.future.Get(context.Background())
			if err == nil {
				if out.Duplicate {
					total.Duplicates++
				}
				total.Published++
				continue
			}
			total.Failed++
			first = cmpErr(first, err)
			if total.Failed <= maxTold {
				fmt.Fprintf(s.err, "%s:%d: %v\n", line.name, line.number, err)
			}
		}
	}()
	readErr := p.inputs(s, func(s *session, r io.Reader, name string) error {
		return p.readLines(s, r, name, publisher, sent)
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.timeout)
	defer cancel()
	closeErr := publisher.Close(ctx)
	close(sent)
	<-done
	showErr := s.show(total, total.text)
	return errors.Join(readErr, closeErr, partly(first), showErr)
}

// cmpErr keeps the first error, but an unknown outcome before all others: it is what a script must know.
func cmpErr(first, next error) error {
	if first == nil || client.IsOutcomeUnknown(next) && !client.IsOutcomeUnknown(first) {
		return next
	}
	return first
}

func (p *publishCmd) readLines(s *session, r io.Reader, name string, publisher *client.Publisher, sent chan<- sentLine) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), mq.LargestMaxMessageBytes)
	number := 0
	for lines.Scan() {
		number++
		p.sent++
		value := append([]byte(nil), lines.Bytes()...)
		future, err := publisher.Publish(s.ctx, p.message(value))
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, number, err)
		}
		sent <- sentLine{name, number, future}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", name, number+1, err)
	}
	return nil
}
