package segment

import (
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// Course goes through a segment entry by entry, whichever copies they are read from, and checks that each follows the one
// before: copies of a segment have the same entries (I3), and there is no gap (I5).
type Course struct {
	s     *mq.Segment
	at    mq.Position
	prev  mq.Position // where the entry before begins, once begun
	begun bool
	f     func(*mq.Entry) error
}

// NewCourse is a course from a position to where the entries of s end. f gets each entry; its error is that of Take and Next.
func NewCourse(s *mq.Segment, from mq.Position, f func(*mq.Entry) error) *Course {
	return &Course{s: s, at: from, f: f}
}

// Segment is what the course goes through.
func (c *Course) Segment() *mq.Segment { return c.s }

// At is where the next entry begins.
func (c *Course) At() mq.Position { return c.at }

// Over says whether the end is reached.
func (c *Course) Over() bool { return !c.at.Before(c.s.DataEnd()) }

// Take is Next for the bytes of an entry.
func (c *Course) Take(data []byte, inside bool) error {
	e, err := mq.ParseEntry(data)
	if err != nil {
		return err
	}
	return c.Next(&e, inside)
}

// Next gives an entry to f, if it is the next one. inside says that the course may begin within it, as stores look.
func (c *Course) Next(e *mq.Entry, inside bool) error {
	switch {
	case e.Segment != c.s.ID || e.Boot != c.s.Leader.Boot:
		return fmt.Errorf("an entry of segment %d by boot %d where one of %s is asked for", e.Segment, e.Boot, c.s)
	case e.At != c.at && (c.begun || !inside):
		return fmt.Errorf("asked for %s of segment %d, got %s", c.at, c.s.ID, e.At)
	case c.begun && e.Prev != c.prev:
		return fmt.Errorf("the entry at %s of segment %d follows %s, and before it lies %s: its copies differ", e.At, c.s.ID, e.Prev, c.prev)
	}
	c.at, c.prev, c.begun = e.Next(), e.At, true
	return c.f(e)
}
