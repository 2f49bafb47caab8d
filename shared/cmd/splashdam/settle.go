package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

type receipts struct {
	Receipt []string `arg:"" help:"Receipts, as consume -o json shows them."`
}

// settled counts what became of receipts.
type settled struct {
	Settled int `json:"settled"`
	Failed  int `json:"failed"`
}

// each settles one after the other, tells the ones that fail, and goes on.
func (r *receipts) each(s *session, settle func(ctx context.Context, receipt string) error) error {
	var failed error
	var total settled
	for _, one := range r.Receipt {
		ctx, cancel := s.call()
		err := settle(ctx, one)
		cancel()
		if err == nil {
			total.Settled++
			continue
		}
		total.Failed++
		if len(r.Receipt) == 1 {
			return err
		}
		failed = cmpErr(failed, err)
		fmt.Fprintf(s.err, "%.40s: %v\n", one, err)
	}
	err := s.show(total, func() string { return fmt.Sprintf("%d settled, %d failed\n", total.Settled, total.Failed) })
	return errors.Join(partly(failed), err)
}

type ackCmd struct {
	receipts `embed:""`
}

func (a *ackCmd) Run(s *session) error { return a.each(s, s.client.Ack) }

type nackCmd struct {
	receipts `embed:""`
	Delay    *time.Duration `help:"When it comes again; default: by the group's back-off."`
	Reason   string         `blank:"" help:"Shown in traces."`
}

func (n *nackCmd) Run(s *session) error {
	return n.each(s, func(ctx context.Context, receipt string) error {
		return s.client.Nack(ctx, receipt, n.Delay, n.Reason)
	})
}

type rejectCmd struct {
	receipts `embed:""`
	Reason   string `blank:"" help:"Shown in traces and with the dead letter."`
}

func (r *rejectCmd) Run(s *session) error {
	return r.each(s, func(ctx context.Context, receipt string) error {
		return s.client.Reject(ctx, receipt, r.Reason)
	})
}

type extendCmd struct {
	receipts `embed:""`
	Lease    time.Duration `help:"How long from now, 100ms to 12h; default: the group's lease."`
}

func (e *extendCmd) Run(s *session) error {
	return e.each(s, func(ctx context.Context, receipt string) error {
		return s.client.Extend(ctx, receipt, e.Lease)
	})
}
