package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// ReadOptions say what to read of a topic without a group; the zero value reads all that is kept, all
// partitions merged by time.
type ReadOptions struct {
	Partition *uint32
	// From and To are an offset (with Partition), a time in RFC 3339, "earliest" or "latest".
	From, To string
	Backward bool
	Limit    int           // messages of a page; 0 takes the server's default
	Wait     time.Duration // long poll where the end is reached
	Archived bool          // what is in the archive too
	Cursor   string        // NextCursor of the page before
}

func (o *ReadOptions) query() url.Values {
	q := Page{Cursor: o.Cursor, Limit: o.Limit}.query()
	if o.Partition != nil {
		q.Set("partition", strconv.FormatUint(uint64(*o.Partition), 10))
	}
	if o.From != "" {
		q.Set("from", o.From)
	}
	if o.To != "" {
		q.Set("to", o.To)
	}
	if o.Backward {
		q.Set("direction", "backward")
	}
	if o.Archived {
		q.Set("include_archived", "true")
	}
	if o.Wait > 0 {
		q.Set("wait", o.Wait.String())
	}
	return q
}

// Read reads one page without a group: nothing is leased or settled.
func (c *Client) Read(ctx context.Context, topic string, o ReadOptions) (api.ReadAnswer, error) {
	var out api.ReadAnswer
	q, err := newCall(http.MethodGet, withQuery(pathOf("topics", topic, "messages"), o.query()), nil, true)
	if err == nil {
		_, err = c.exchange(ctx, q.poll(o.Wait), &out)
	}
	return out, err
}

// Messages reads page after page. With o.Wait it goes on at the end of the topic until the context ends or
// the range that was asked for is done, and waits out faults that pass; without, it stops at the end. An error is
// the last pair; that the context ended is one.
func (c *Client) Messages(ctx context.Context, topic string, o ReadOptions) iter.Seq2[api.Message, error] {
	return func(yield func(api.Message, error) bool) {
		pauses := c.retry.pauses()
		for {
			page, err := c.Read(ctx, topic, o)
			if o.Wait > 0 && err != nil && ctx.Err() == nil && passes(err) {
				c.log.Warn("reading failed, trying again", "topic", topic, "err", err)
				sleep(ctx, pauses.NextBackOff())
				continue
			}
			if err != nil {
				yield(api.Message{}, err)
				return
			}
			pauses.Reset()
			for _, m := range page.Messages {
				if ctx.Err() != nil {
					yield(api.Message{}, context.Cause(ctx))
					return
				}
				if !yield(m, nil) {
					return
				}
			}
			if page.NextCursor == "" || page.AtEnd && o.Wait == 0 {
				return
			}
			// The cursor carries the position only; the bounds stay in the query.
			o.Cursor = page.NextCursor
		}
	}
}
