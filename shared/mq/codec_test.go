package mq

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func genMessage() *rapid.Generator[Message] {
	return rapid.Custom(func(t *rapid.T) Message {
		m := Message{Value: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "value"), Lane: Lane(rapid.IntRange(0, Lanes-1).Draw(t, "lane"))}
		if rapid.Bool().Draw(t, "keyed") {
			m.HasKey, m.Key = true, rapid.SliceOfN(rapid.Byte(), 0, 10).Draw(t, "key")
		}
		m.ContentType = rapid.SampledFrom([]string{"", "text/plain"}).Draw(t, "type")
		for range rapid.IntRange(0, 2).Draw(t, "headers") {
			m.Headers = append(m.Headers, Header{rapid.String().Draw(t, "name"), rapid.String().Draw(t, "header")})
		}
		m.TTL = int64(rapid.IntRange(0, 5).Draw(t, "ttl"))
		if rapid.Bool().Draw(t, "idem") {
			m.Idempotency, m.Content = [16]byte{1, 2, 3}, rapid.Uint64().Draw(t, "content")
		}
		return m
	})
}

func sameMessage(a, b *Message) bool {
	return a.HasKey == b.HasKey && bytes.Equal(a.Key, b.Key) && a.ContentType == b.ContentType && slices.Equal(a.Headers, b.Headers) &&
		bytes.Equal(a.Value, b.Value) && a.Lane == b.Lane && a.TTL == b.TTL && a.Idempotency == b.Idempotency && a.Content == b.Content
}

func TestBatchComesBackAndSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(genMessage(), 1, 8).Draw(t, "messages")
		var b BatchBuilder
		for i := range in {
			b.Add(&in[i])
		}
		whole, err := ParseBatch(b.AppendTo(nil, "p", "g", CodecNone, nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := whole.CheckIndex(); err != nil || whole.Producer != "p" || whole.Gateway != "g" {
			t.Fatal(err, whole.Producer, whole.Gateway)
		}
		check := func(b *Batch, want []Message) {
			n := 0
			err := b.Each(b.Packed(), func(i int, m *Message) bool {
				if !sameMessage(m, &want[i]) {
					t.Fatalf("message %d: %+v, want %+v", i, m, want[i])
				}
				n++
				return true
			})
			if err != nil || n != len(want) {
				t.Fatalf("%d of %d messages: %v", n, len(want), err)
			}
			err = b.EachOrder(func(i int, lane Lane, key []byte, keyed bool) {
				if m := &want[i]; lane != m.Lane || keyed != m.HasKey || !bytes.Equal(key, m.Key) {
					t.Fatalf("message %d: lane %s, key %q %v, want %+v", i, lane, key, keyed, m)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		check(&whole, in)
		var ordinals []int
		var chosen []Message
		for i := range in {
			if rapid.Bool().Draw(t, "take") || i == len(in)-1 && len(ordinals) == 0 {
				ordinals, chosen = append(ordinals, i), append(chosen, in[i])
			}
		}
		raw, ok, err := whole.Slice(nil, ordinals)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		part, err := ParseBatch(raw)
		if err != nil {
			t.Fatal(err)
		}
		check(&part, chosen)
		if n, uses := BatchShape(raw); n != len(chosen) || uses != part.Uses || part.CheckIndex() != nil {
			t.Fatalf("%d messages using %#x, parsed %#x: %v", n, uses, part.Uses, part.CheckIndex())
		}
	})
}

func FuzzBatch(f *testing.F) {
	var b BatchBuilder
	b.Add(&Message{Value: []byte("v"), HasKey: true, Key: []byte("k"), Headers: []Header{{"a", "b"}}, Lane: LaneLow})
	f.Add(b.AppendTo(nil, "p", "g", CodecNone, nil))
	f.Add([]byte{1, 0, 0, 1, 0, 0, 0, 2, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		b, err := ParseBatch(in)
		if err != nil {
			return
		}
		_ = b.Each(b.Packed(), func(int, *Message) bool { return true })
		if b.CheckIndex() == nil && b.Codec == CodecNone {
			if _, _, err := b.Slice(nil, []int{b.Count - 1}); err != nil {
				t.Fatal("a batch that was checked does not slice:", err)
			}
		}
	})
}

func TestEntryComesBack(t *testing.T) {
	e := Entry{Segment: 7, At: Position{Offset: 5, Seq: 2}, Prev: Position{Offset: 5, Seq: 1}, Commit: Position{Offset: 4}, Count: 3, Stamp: -1,
		Boot: 9, Records: AppendRecord(nil, KindMessages, []byte("body"))}
	raw := e.AppendTo([]byte("before"))[len("before"):]
	got, err := ParseEntry(raw)
	if err != nil {
		t.Fatal(err)
	}
	if got.At != e.At || got.Prev != e.Prev || got.Commit != e.Commit || got.Count != 3 || got.Stamp != -1 || got.Boot != 9 || got.Segment != 7 ||
		!bytes.Equal(got.Records, e.Records) {
		t.Fatalf("%+v", got)
	}
	if next := got.Next(); next != (Position{Offset: 8}) {
		t.Fatalf("next %s", next)
	}
	for i := range raw { // each single flipped bit shows
		raw[i] ^= 1
		if _, err := ParseEntry(raw); err == nil {
			t.Fatalf("byte %d changed and nobody noticed", i)
		}
		raw[i] ^= 1
	}
	inPlace := make([]byte, EntryHeaderSize, 200)
	inPlace = append(inPlace, e.Records...)
	e.PutHeader(inPlace)
	if !bytes.Equal(inPlace, raw) {
		t.Fatal("gathering in place makes other bytes")
	}
}

func FuzzEntry(f *testing.F) {
	e := Entry{Segment: 1, Count: 1, Records: AppendRecord(nil, KindSettled, []byte{1})}
	f.Add(e.AppendTo(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		e, err := ParseEntryHeader(in)
		if err != nil {
			return
		}
		for rest := e.Records; len(rest) > 0; {
			if _, rest, err = NextRecord(rest); err != nil {
				return
			}
		}
	})
}

func TestPositionsSortAsTheirKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func() Position {
			return Position{Offset: rapid.Uint64().Draw(t, "offset"), Seq: rapid.Uint32().Draw(t, "seq")}
		}
		a, b := draw(), draw()
		ka, kb := a.AppendKey(nil), b.AppendKey(nil)
		if a.Compare(b) != bytes.Compare(ka, kb) || ParsePosition(ka) != a {
			t.Fatal(a, b)
		}
	})
}

func TestMessageIDIsStrict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := MessageID{Partition: PartitionID{TopicID(rapid.Uint64().Draw(t, "topic")), rapid.Uint32().Draw(t, "n")},
			Scheduled: rapid.Bool().Draw(t, "scheduled"), Number: rapid.Uint64().Draw(t, "number")}
		got, err := ParseMessageID(id.String())
		if err != nil || got != id {
			t.Fatal(got, err)
		}
	})
	for _, bad := range []string{"", "A", "EAEBAA=", "EAEBAB ", "EAEBAAAA", "~~", strings.Repeat("E", 65), "FAEBAA"} {
		if _, err := ParseMessageID(bad); !errors.Is(err, ErrMessageID) {
			t.Errorf("%q was taken: %v", bad, err)
		}
	}
}

func FuzzMessageID(f *testing.F) {
	f.Add("EAEBAA")
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := ParseMessageID(s); err == nil && id.String() != s {
			t.Fatalf("%q is another text of %q", s, id.String())
		}
	})
}

func TestReceiptIsSigned(t *testing.T) {
	secret := sha256.Sum256([]byte("k"))
	secrets := func(n uint32) []byte {
		if n == 3 {
			return secret[:]
		}
		return nil
	}
	r := Receipt{Key: 3, Partition: PartitionID{4, 5}, Offset: 6, Group: 7, Generation: 8, Segment: 9, Counter: 10}
	raw := r.AppendRaw(nil, secret[:])
	if got, err := VerifyReceipt(raw, secrets); err != nil || got != r {
		t.Fatal(got, err)
	}
	text, err := DecodeReceiptText(string(r.AppendText(nil, secret[:])))
	if err != nil || !bytes.Equal(text, raw) {
		t.Fatal(err)
	}
	for i := range raw {
		raw[i] ^= 4
		if _, err := VerifyReceipt(raw, secrets); err == nil {
			t.Fatalf("byte %d changed and the receipt is taken", i)
		}
		raw[i] ^= 4
	}
	other := sha256.Sum256([]byte("another cluster"))
	if _, err := VerifyReceipt(r.AppendRaw(nil, other[:]), secrets); err == nil {
		t.Fatal("signed with another key")
	}
	r.Key = 4
	if _, err := VerifyReceipt(r.AppendRaw(nil, secret[:]), secrets); err == nil {
		t.Fatal("signed with a key that is not known")
	}
}

func FuzzReceipt(f *testing.F) {
	f.Add([]byte{1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, in []byte) { _, _ = ParseReceipt(in) })
}

func TestNames(t *testing.T) {
	for _, good := range []string{"a", "A.b_c-9", "0", strings.Repeat("x", MaxNameLength)} {
		if err := CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "../../x", "-a", "_a", "a/b", "a b", "ä", "a\x00", strings.Repeat("x", 300), "a\n"} {
		if CheckName(bad) == nil {
			t.Errorf("%q is a name", bad)
		}
	}
}

func TestSettingsReportEveryBadField(t *testing.T) {
	s := DefaultTopicSettings()
	if err := s.Validate(""); err != nil {
		t.Fatal(err)
	}
	s.Partitions, s.Replicas, s.Quorum, s.Compression = 0, 3, 1, "lz4"
	s.GroupDefaults.Lease, s.GroupDefaults.Backoff.Multiplier = 0, 0
	err := s.Validate("")
	for _, pointer := range []string{"/partitions", "/ack_quorum", "/compression", "/group_defaults/lease", "/group_defaults/backoff/multiplier"} {
		if err == nil || !strings.Contains(err.Error(), pointer+":") {
			t.Errorf("%s is not named in: %v", pointer, err)
		}
	}
}
