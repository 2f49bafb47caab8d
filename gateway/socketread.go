package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/coder/websocket"

	"github.com/splashdam/splashdam/gateway/internal/jsonscan"
	"github.com/splashdam/splashdam/gateway/internal/strictjson"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// read takes frames until the connection ends, and says how to close it: 0 where it has ended already. What is wrong with
// one frame is answered; only what is no frame, or one that does not fit, ends the connection.
func (s *socket) read() (code websocket.StatusCode, reason string) {
	for {
		in, err := s.readFrame()
		var e *mqerr.Error
		switch {
		case err == nil:
			s.handle(in)
		case errors.Is(err, errBinary):
			return websocket.StatusUnsupportedData, "frames are text"
		case !errors.As(err, &e) || s.ctx.Err() != nil:
			return 0, ""
		case e.Code == mqerr.Overloaded:
			s.fail(nil, "", e)
			return websocket.StatusTryAgainLater, "too many frames are being read"
		default:
			s.fail(nil, "", e)
			return websocket.StatusMessageTooBig, "the frame is too large"
		}
	}
}

var errBinary = errors.New("a frame that is not text")

// readFrame waits for the next frame and reads it whole, within the bounds of request bodies.
func (s *socket) readFrame() (*body, error) {
	kind, in, err := s.conn.Reader(s.ctx)
	if err != nil {
		return nil, err
	}
	if kind != websocket.MessageText {
		return nil, errBinary
	}
	slow := time.AfterFunc(s.g.cfg.BodyTimeout, s.end) // it has begun, and must come
	defer slow.Stop()
	out := &body{g: s.g}
	limit := s.g.cfg.MaxBodyBytes
	if err := out.read(in, firstBody, limit, func() error {
		return mqerr.New(mqerr.BodyTooLarge, "a frame has at most %d bytes", limit)
	}); err != nil {
		out.release()
		return nil, err
	}
	return out, nil
}

// socketFrame is a frame whose outside was read. What it holds points into its text.
type socketFrame struct {
	in       *body
	id       []byte
	topic    []byte
	messages []byte
	acts     [len(actNames)][]byte
}

// handle carries out one frame, or queues it. It owns the body.
func (s *socket) handle(in *body) {
	f := socketFrame{in: in}
	kind, err := f.scan()
	if err != nil {
		in.release()
		s.fail(f.id, "", err)
		return
	}
	switch kind {
	case api.FramePublish:
		s.do(&s.publishing, func() { s.publish(&f) })
		return
	case api.FrameSettle:
		s.do(&s.settling, func() { s.settle(&f) })
		return
	}
	defer in.release()
	switch kind {
	case api.FrameSubscribe:
		var req api.SocketSubscribe
		if err = strictjson.Decode(in.b, &req); err == nil {
			err = s.subscribe(f.id, &req)
		}
	case api.FrameCredit:
		var req api.SocketCredit
		if err = strictjson.Decode(in.b, &req); err == nil {
			err = s.credit(&req)
		}
	case api.FrameUnsubscribe:
		var req api.SocketUnsubscribe
		if err = strictjson.Decode(in.b, &req); err == nil {
			err = s.unsubscribe(f.id, req.Subscription)
		}
	case api.FramePing:
		var req api.SocketHead
		if err = strictjson.Decode(in.b, &req); err == nil {
			_ = s.write(append(appendFrame(nil, api.FramePong, f.id), '}')) // a failure ends the connection
		}
	default:
		err = invalid("/type", "must be subscribe, credit, unsubscribe, settle, publish or ping, not %.40q", kind)
	}
	if err != nil {
		s.fail(f.id, "", err)
	}
}

// scan reads the outside of a frame: its type and id, and where a publish and a settle have what they carry. The fields
// of the other types are read by their own structs.
func (f *socketFrame) scan() (kind string, err error) {
	var scan jsonscan.Scanner
	scan.Reset(f.in.b)
	if k := scan.Peek(); k != jsonscan.Object {
		scan.Skip()
		if err := scan.End(); err != nil {
			return "", invalidJSON(err)
		}
		return "", invalid("", "a frame is an object, not %s", k.Name())
	}
	var unknown, twice []byte
	var bad error
	once := func(seen *[]byte, name, v []byte) {
		if *seen != nil {
			twice = name
		}
		*seen = v
	}
	var kindText []byte
	scan.Open()
	for first := true; ; first = false {
		name, more := scan.Key(first)
		if !more {
			break
		}
		switch n := string(name); n {
		case "type", "id", "topic":
			text, err := readString(&scan, "/"+n)
			if text == nil {
				text = []byte{}
			}
			if bad == nil {
				bad = err
			}
			once(map[string]*[]byte{"type": &kindText, "id": &f.id, "topic": &f.topic}[n], name, text)
		case "messages":
			once(&f.messages, name, scan.Raw())
		default:
			if o := outcomeOf(name); o != 0 {
				once(&f.acts[o], name, scan.Raw())
				break
			}
			unknown = name
			scan.Skip()
		}
	}
	if err := scan.End(); err != nil {
		return "", invalidJSON(err)
	}
	if len(f.id) > maxFrameID {
		f.id, bad = nil, invalid("/id", "has at most %d bytes", maxFrameID)
	}
	kind = string(kindText)
	switch {
	case bad != nil:
	case twice != nil:
		bad = invalid(pointerTo(twice), "%s is given twice", twice)
	case kind == api.FramePublish:
		bad = f.only(unknown, f.acted())
	case kind == api.FrameSettle:
		bad = f.only(unknown, map[string]bool{"topic": f.topic != nil, "messages": f.messages != nil})
	}
	return kind, bad
}

func (f *socketFrame) acted() map[string]bool {
	given := map[string]bool{}
	for o, raw := range f.acts {
		given[actNames[o]] = raw != nil
	}
	return given
}

// only refuses fields that a type does not have.
func (f *socketFrame) only(unknown []byte, not map[string]bool) error {
	if unknown != nil {
		return invalid(pointerTo(unknown), "there is no such field")
	}
	for name, given := range not {
		if given {
			return invalid("/"+name, "there is no such field")
		}
	}
	return nil
}

// publish publishes the messages of a frame, like a batch.
func (s *socket) publish(f *socketFrame) {
	defer f.in.release()
	ctx, cancel := context.WithTimeout(s.ctx, s.g.cfg.RequestTimeout)
	defer cancel()
	p, err := s.planPublish(ctx, f)
	if err != nil {
		s.fail(f.id, "", err)
		return
	}
	defer p.release()
	p.send(ctx, s.remote)
	b := appendFrame(make([]byte, 0, 64+72*len(p.slots)), api.FramePublished, f.id)
	b = p.appendResults(append(b, `,"results":[`...))
	b = appendInt(append(b, `],"failed":`...), p.failed())
	_ = s.write(append(b, '}')) // a failure ends the connection
}

func (s *socket) planPublish(ctx context.Context, f *socketFrame) (*plan, error) {
	topic := string(f.topic)
	if err := mq.CheckName(topic); err != nil {
		return nil, invalid("/topic", "%v", err)
	}
	limits, err := s.g.publishLimits(ctx, topic)
	if err != nil {
		return nil, err
	}
	return s.g.planBatch(ctx, limits, f.messages, func(p *plan, r *itemReader, b []byte) error {
		r.scan.Reset(b)
		if len(b) > 0 {
			if err := p.readArray(r); err != nil {
				return err
			}
		}
		if len(p.slots) == 0 {
			return invalid("/messages", "there is at least one message")
		}
		return nil
	})
}

// settle settles the receipts of a frame.
func (s *socket) settle(f *socketFrame) {
	defer f.in.release()
	t := &settlement{g: s.g}
	if err := t.parseActs(&f.acts); err != nil {
		s.fail(f.id, "", err)
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.g.cfg.RequestTimeout)
	defer cancel()
	t.send(ctx)
	t.count()
	b := appendFrame(make([]byte, 0, 64+4*len(t.items)), api.FrameSettled, f.id)
	b, _ = t.appendResults(append(b, ','))
	_ = s.write(append(b, '}')) // a failure ends the connection
}
