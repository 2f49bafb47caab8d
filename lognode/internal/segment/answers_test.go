package segment

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Who is told what, when a leader ends: success up to what was committed, the cause beyond where its segment ended and where nothing was placed,
// and else that it is not known.
func TestAnswers(t *testing.T) {
	cause, end := errors.New("moved"), mq.Position{Offset: 7}
	for _, x := range []struct {
		name string
		end  *mq.Position
		want []string
	}{
		{"the end is known", &end, []string{"5 ok", "6 unknown", "7 unknown", "8 moved", "none moved"}},
		{"it is not", nil, []string{"5 ok", "6 unknown", "7 unknown", "8 unknown", "none moved"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			var a Answers
			var told []string
			tell := func(name any) func(error) {
				return func(err error) {
					switch {
					case err == nil:
						told = append(told, fmt.Sprint(name, " ok"))
					case mqerr.Is(err, mqerr.OutcomeUnknown):
						told = append(told, fmt.Sprint(name, " unknown"))
					default:
						told = append(told, fmt.Sprint(name, " ", err))
					}
				}
			}
			a.At(mq.Position{Offset: 5}, tell(5))
			a.At(mq.Position{Offset: 6}, tell(6))
			a.Later(tell(7))
			if !a.Waits() {
				t.Error("nobody waits for a position")
			}
			a.Placed(mq.Position{Offset: 7})
			a.At(mq.Position{Offset: 8}, tell(8))
			if a.Waits() {
				t.Error("somebody waits for a position that was given")
			}
			a.Later(tell("none"))
			a.Release(mq.Position{Offset: 5, Seq: 3})
			a.End(cause, x.end)
			if !slices.Equal(told, x.want) {
				t.Errorf("told %q, not %q", told, x.want)
			}
		})
	}
}
