package archive

import (
	"context"
	"io"
	"time"

	"gocloud.dev/blob"
)

const (
	// partBytes and parts bound the memory of an upload to an object store: so much is sent at once, so many times side by side. S3
	// takes 10,000 parts, which is 80 GB for a segment.
	partBytes, parts = 8 << 20, 2
	// cleanWait is how long the store may take to forget the parts of an upload that is given up.
	cleanWait = 3 * time.Second
)

// transfer is an object on its way into the bucket. It gets its name when end is called without an error, and never else. The
// driver reads from a pipe: of its two ways to write this is the one that forgets the parts of what fails, and Azure's other one
// panics when the store refuses (gocloud.dev v0.47).
type transfer struct {
	in      *io.PipeWriter
	done    chan error
	stop    context.CancelFunc
	unhook  func() bool // from the caller's context
	inParts bool
}

// transfer begins an object. end must be called.
func (a *Archive) transfer(ctx context.Context, key string) *transfer {
	// Of its own, so that there is still one to clean up with when ctx has ended.
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	out, in := io.Pipe()
	t := &transfer{in: in, done: make(chan error, 1), stop: stop, inParts: a.inParts}
	go func() {
		err := a.bucket.Upload(live, key, out, &blob.WriterOptions{ContentType: "application/octet-stream", BufferSize: partBytes, MaxConcurrency: parts})
		out.CloseWithError(err) // whoever writes must not wait for a reader that has gone
		t.done <- err
	}()
	t.unhook = context.AfterFunc(ctx, func() { t.breakOff(context.Cause(ctx)) }) // a Write may wait for a store that does not answer
	return t
}

func (t *transfer) Write(b []byte) (int, error) { return t.in.Write(b) }

// end completes the object, or gives it up for a reason. It returns when nothing of the transfer runs any more.
func (t *transfer) end(ctx context.Context, reason error) error {
	defer t.stop()
	defer t.unhook()
	if reason == nil {
		reason = context.Cause(ctx)
	}
	if reason != nil {
		t.giveUp(reason)
		return reason
	}
	t.in.Close()
	select {
	case err := <-t.done:
		return err
	case <-ctx.Done():
		t.stop()
		<-t.done
		return context.Cause(ctx)
	}
}

// breakOff makes the driver end without an object. A directory and Google would complete what they have if only the pipe broke: their
// context must be over before. S3 needs its context to forget the parts, which would cost money for ever, and completes nothing.
func (t *transfer) breakOff(reason error) {
	if !t.inParts {
		t.stop()
	}
	t.in.CloseWithError(reason)
}

// giveUp breaks the transfer off and waits until it has ended.
func (t *transfer) giveUp(reason error) {
	t.breakOff(reason)
	late := time.AfterFunc(cleanWait, t.stop)
	<-t.done
	late.Stop()
}
