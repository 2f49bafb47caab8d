package gateway

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/splashdam/splashdam/shared/mqerr"
)

func TestLines(t *testing.T) {
	const memory = 1000
	long, beyond := strings.Repeat("l", 90), strings.Repeat("b", 500)
	for _, c := range []struct {
		in   string
		free int64
		want string // the lines; ! for one that is too long, ? for one without memory
	}{
		{"a\n\r\n b \nc", memory, "a,,b,c"},
		{long + "\n" + long + "\r\nx\n", memory, long + "," + long + ",x"},
		{"a\n" + beyond + "\nb\n" + long, memory, "a,!,b," + long},
		{beyond, memory, "!"},
		{long + "\na\n" + long, 30, "?,a,?"},
	} {
		m := semaphore.NewWeighted(memory)
		if !m.TryAcquire(memory - c.free) {
			t.Fatal("no memory")
		}
		l := lineReader{in: bufio.NewReaderSize(strings.NewReader(c.in), 16), limit: 200, memory: m}
		var got []string
		for {
			line, err := l.next()
			switch {
			case mqerr.Is(err, mqerr.MessageTooLarge):
				got = append(got, "!")
				continue
			case mqerr.Is(err, mqerr.Overloaded):
				got = append(got, "?")
				continue
			case err == nil || len(line) > 0:
				got = append(got, string(line))
			}
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if s := strings.Join(got, ","); s != c.want {
			t.Errorf("%.40q: %q, want %q", c.in, s, c.want)
		}
		if l.release(); !m.TryAcquire(c.free) {
			t.Errorf("%.40q: memory is missing", c.in)
		}
	}
}
