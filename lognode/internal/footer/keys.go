package footer

import (
	"github.com/splashdam/splashdam/lognode/internal/dedup"
	"github.com/splashdam/splashdam/shared/mq"
)

// keys are the idempotency keys in the order in which they came, in the form of dedup.Append: about 28 bytes a key.
// There is no bound but the part's own: what a leader needs is the newest million of a partition.
type keys struct{ list []dedup.Entry }

func (*keys) id() SectionID { return sectionKeys }

func (k *keys) add(e *mq.Entry, first uint64, rec mq.Record) {
	dedup.EachKey(e, first, rec, func(x dedup.Entry) { k.list = append(k.list, x) })
}

func (k *keys) memory() int { return 56 * len(k.list) }

func (k *keys) append(b []byte) []byte {
	if len(k.list) == 0 {
		return b
	}
	return dedup.Append(b, k.list)
}

func (k *keys) reset() { k.list = nil }

// Keys calls f with the idempotency keys of the parts, those of the newest part first (in a part the oldest first),
// until it returns false or the rest is older than since. own is how many of a part's keys were not carried forward from
// a segment before.
func (f *Footer) Keys(since int64, each func(keys dedup.Form, own int) bool) error {
	for i := len(f.Parts) - 1; i >= 0; i-- {
		p := f.Parts[i]
		if p.Last < since {
			return nil
		}
		keys, err := p.keyForm()
		if err != nil {
			return err
		}
		if keys.form.Len() > 0 && !each(keys.form, keys.own) {
			return nil
		}
	}
	return nil
}
