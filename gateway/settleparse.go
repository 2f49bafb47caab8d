package gateway

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/splashdam/splashdam/gateway/internal/jsonscan"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// maxReceiptText bounds a receipt's text; a real one has about 60 bytes.
const maxReceiptText = 256

// options are what goes with a receipt, as given.
type options struct {
	delay    time.Duration
	hasDelay bool
	lease    time.Duration
	reason   string
	given    [len(optionNames)]bool
}

var optionNames = [...]string{"delay", "lease", "reason"}

// add takes one receipt. What is no receipt fails alone.
func (s *settlement) add(receipt []byte, o frame.Outcome, with options) error {
	if len(s.items) == maxSettle {
		return tooManyReceipts()
	}
	item := frame.SettleItem{Outcome: o, Reason: with.reason, Delay: groupBackoff}
	var from mq.PartitionID
	var bad *mqerr.Error
	var raw []byte
	var r mq.Receipt
	err := mq.ErrReceipt
	if len(receipt) <= maxReceiptText {
		raw = make([]byte, base64.RawURLEncoding.DecodedLen(len(receipt)))
		if _, err = base64.RawURLEncoding.Strict().Decode(raw, receipt); err == nil {
			r, err = mq.ParseReceipt(raw)
		}
	}
	if err != nil {
		bad = mqerr.New(mqerr.InvalidReceipt, "")
	} else {
		from = r.Partition
	}
	item.Receipt = raw
	switch {
	case o == frame.OutcomeNack && with.hasDelay:
		item.Delay = int64(with.delay)
	case o == frame.OutcomeExtend && with.lease > 0:
		item.Delay = int64(with.lease)
	case o == frame.OutcomeExtend:
		item.Delay = int64(s.defaultLease(r.Group))
	}
	s.items = append(s.items, item)
	s.from = append(s.from, from)
	s.errs = append(s.errs, bad)
	s.until = append(s.until, 0)
	return nil
}

func tooManyReceipts() error {
	return mqerr.New(mqerr.BatchTooLarge, "a call settles at most %d receipts", maxSettle)
}

// parseAct reads an api.ActRequest, or a receipt alone as text.
func (s *settlement) parseAct(b []byte, o frame.Outcome) error {
	b = bytes.TrimSpace(b)
	if len(b) > 0 && b[0] != '{' && b[0] != '[' && b[0] != '"' {
		s.single = true
		return s.add(b, o, options{})
	}
	var scan jsonscan.Scanner
	scan.Reset(b)
	if scan.Peek() != jsonscan.Object {
		scan.Skip()
		if err := scan.End(); err != nil {
			return invalidJSON(err)
		}
		return invalid("", "the body is an object with receipt or receipts, or a receipt alone")
	}
	// The receipts are taken when the options are known, which may come after them in the text.
	var with options
	var receipts [][]byte
	var bad error
	given := 0
	scan.Open()
	for first := true; ; first = false {
		name, more := scan.Key(first)
		if !more {
			break
		}
		var err error
		switch string(name) {
		case "receipt":
			given++
			s.single, s.at = true, "/receipt"
			var text []byte
			if text, err = readString(&scan, "/receipt"); err == nil {
				receipts = append(receipts, text)
			}
		case "receipts":
			given++
			receipts, err = readStrings(&scan, "/receipts", receipts)
		default:
			err = with.read(&scan, o, "", name)
		}
		if mqerr.Is(err, mqerr.BatchTooLarge) {
			return err
		}
		if bad == nil {
			bad = err
		}
	}
	switch err := scan.End(); {
	case err != nil:
		return invalidJSON(err)
	case bad != nil:
		return bad
	case given != 1 || len(receipts) == 0:
		return invalid("/receipts", "one of receipt and receipts is needed, with at least one receipt")
	}
	for _, r := range receipts {
		if err := s.add(r, o, with); err != nil {
			return err
		}
	}
	return nil
}

// parseSettle reads an api.SettleRequest. The results are in the order ack, nack, reject, extend, release,
// whatever the order of the fields.
func (s *settlement) parseSettle(b []byte) error {
	var parts [len(actNames)][]byte
	var scan jsonscan.Scanner
	scan.Reset(b)
	if k := scan.Peek(); k != jsonscan.Object {
		scan.Skip()
		if err := scan.End(); err != nil {
			return invalidJSON(err)
		}
		return invalid("", "the body is an object with ack, nack, reject, extend or release, not %s", k.Name())
	}
	scan.Open()
	var bad error
	for first := true; ; first = false {
		name, more := scan.Key(first)
		if !more {
			break
		}
		o := outcomeOf(name)
		pointer := pointerTo(name)
		switch {
		case o == 0:
			bad = invalid(pointer, "there is no such field")
		case parts[o] != nil:
			bad = invalid(pointer, "%s is given twice", name)
		}
		parts[o] = scan.Raw()
	}
	if err := scan.End(); err != nil {
		return invalidJSON(err)
	}
	if bad != nil {
		return bad
	}
	return s.parseActs(&parts)
}

// parseActs reads the list of each act, nil for none.
func (s *settlement) parseActs(parts *[len(actNames)][]byte) (err error) {
	var scan jsonscan.Scanner
	for o := frame.OutcomeAck; o <= frame.OutcomeRelease && err == nil; o++ {
		if parts[o] != nil {
			scan.Reset(parts[o])
			err = s.parseList(&scan, o)
		}
	}
	if err == nil && len(s.items) == 0 {
		err = invalid("", "there is nothing to settle")
	}
	return err
}

func outcomeOf(name []byte) frame.Outcome {
	for o := frame.OutcomeAck; o <= frame.OutcomeRelease; o++ {
		if actNames[o] == string(name) {
			return o
		}
	}
	return 0
}

// parseList reads the array of one act: receipts for ack and release, objects for the others.
func (s *settlement) parseList(scan *jsonscan.Scanner, o frame.Outcome) error {
	pointer := "/" + actNames[o]
	if o == frame.OutcomeAck || o == frame.OutcomeRelease {
		receipts, err := readStrings(scan, pointer, nil)
		for i := 0; i < len(receipts) && err == nil; i++ {
			err = s.add(receipts[i], o, options{})
		}
		return err
	}
	if k := scan.Peek(); k != jsonscan.Array {
		if scan.Null() {
			return nil
		}
		return invalid(pointer, "must be an array, not %s", k.Name())
	}
	scan.Open()
	for i := 0; scan.Element(i == 0); i++ {
		if err := s.parseOne(scan, o, fmt.Sprintf("%s/%d", pointer, i)); err != nil {
			return err
		}
	}
	return invalidJSON(scan.Err())
}

func (s *settlement) parseOne(scan *jsonscan.Scanner, o frame.Outcome, pointer string) error {
	if k := scan.Peek(); k != jsonscan.Object {
		return invalid(pointer, "must be an object with a receipt, not %s", k.Name())
	}
	var with options
	var receipt []byte
	scan.Open()
	for first := true; ; first = false {
		name, more := scan.Key(first)
		if !more {
			break
		}
		var err error
		if string(name) == "receipt" {
			if receipt != nil {
				return invalid(pointer+"/receipt", "receipt is given twice")
			}
			receipt, err = readString(scan, pointer+"/receipt")
		} else {
			err = with.read(scan, o, pointer, name)
		}
		if err != nil {
			return err
		}
	}
	if receipt == nil {
		return invalid(pointer+"/receipt", "is needed")
	}
	return s.add(receipt, o, with)
}

// read reads delay, reason or lease, where the act has it.
func (w *options) read(scan *jsonscan.Scanner, o frame.Outcome, pointer string, name []byte) error {
	pointer += pointerTo(name)
	if i := slices.Index(optionNames[:], string(name)); i >= 0 {
		if w.given[i] {
			scan.Skip()
			return invalid(pointer, "%s is given twice", name)
		}
		w.given[i] = true
	}
	var err error
	switch n := string(name); {
	case n == "delay" && o == frame.OutcomeNack:
		w.hasDelay = scan.Peek() != jsonscan.Null
		w.delay, err = readDuration(scan, pointer, 0, mq.MaxBackoff)
	case n == "lease" && o == frame.OutcomeExtend:
		w.lease, err = readDuration(scan, pointer, mq.MinLease, mq.MaxLease)
	case n == "reason" && (o == frame.OutcomeNack || o == frame.OutcomeReject):
		var text []byte
		if text, err = readString(scan, pointer); err == nil && len(text) > mq.MaxReasonBytes {
			return invalid(pointer, "has at most %d bytes, not %d", mq.MaxReasonBytes, len(text))
		}
		w.reason = string(text)
	default:
		scan.Skip()
		return invalid(pointer, "%s has no such field", actNames[o])
	}
	return err
}

// readString reads a string; null is an empty one.
func readString(scan *jsonscan.Scanner, pointer string) ([]byte, error) {
	if scan.Null() {
		return nil, nil
	}
	if k := scan.Peek(); k != jsonscan.String {
		scan.Skip()
		return nil, invalid(pointer, "must be a string, not %s", k.Name())
	}
	return scan.String(), nil
}

func readStrings(scan *jsonscan.Scanner, pointer string, dst [][]byte) ([][]byte, error) {
	if k := scan.Peek(); k != jsonscan.Array {
		if scan.Null() {
			return dst, nil
		}
		scan.Skip()
		return dst, invalid(pointer, "must be an array of strings, not %s", k.Name())
	}
	scan.Open()
	var bad error
	for i := 0; scan.Element(i == 0); i++ {
		if i == maxSettle { // before they fill the memory, a few bytes of text each
			return dst, tooManyReceipts()
		}
		if scan.Peek() == jsonscan.String {
			dst = append(dst, scan.String())
			continue
		}
		k := scan.Peek()
		if scan.Skip(); bad == nil {
			bad = invalid(fmt.Sprintf("%s/%d", pointer, i), "must be a string, not %s", k.Name())
		}
	}
	return dst, bad
}

// readDuration reads a duration as text; null is 0.
func readDuration(scan *jsonscan.Scanner, pointer string, low, high time.Duration) (time.Duration, error) {
	if scan.Null() {
		return 0, nil
	}
	text, err := readString(scan, pointer)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < low || d > high {
		return 0, invalid(pointer, "must be a duration from %s to %s (30s, 5m), not %.40q", mq.Duration(low), mq.Duration(high), text)
	}
	return d, nil
}
