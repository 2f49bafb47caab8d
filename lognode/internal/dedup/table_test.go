package dedup

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

func keyOf(n int) (k Key) {
	// Low bytes collide on purpose: they are where the index begins to look.
	binary.LittleEndian.PutUint64(k[:], uint64(n%7))
	binary.BigEndian.PutUint64(k[8:], uint64(n))
	return k
}

// list is the oracle: all entries ever added, looked through from the newest.
type list struct {
	most    int
	entries []Entry
}

func (l *list) find(k Key, now int64) (Entry, bool) {
	kept := l.entries[max(0, len(l.entries)-l.most):]
	for _, e := range slices.Backward(kept) {
		if e.Key == k {
			return e, now-e.Stamp < int64(Window)
		}
	}
	return Entry{}, false
}

func TestTableIsTheNewestKeysOfTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 40).Draw(t, "most")
		table, oracle := &Table{most: most}, &list{most: most}
		now, number := int64(1), uint64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			now += int64(rapid.SampledFrom([]time.Duration{0, 0, 0, 1, time.Minute, 4 * time.Minute, 11 * time.Minute}).Draw(t, "later"))
			k := keyOf(rapid.IntRange(0, 60).Draw(t, "key"))
			got, ok := table.Find(k, now)
			want, wantOK := oracle.find(k, now)
			if ok != wantOK || ok && got != want {
				t.Fatalf("find: %v %v, want %v %v", got, ok, want, wantOK)
			}
			if !ok || rapid.IntRange(0, 9).Draw(t, "again") == 0 {
				e := Entry{Key: k, Content: rapid.Uint64().Draw(t, "content"), Number: number, Scheduled: rapid.Bool().Draw(t, "scheduled"), Stamp: now}
				table.Add(e)
				oracle.entries = append(oracle.entries, e)
				number++
			}
			if table.Len() > most {
				t.Fatalf("%d keys, at most %d", table.Len(), most)
			}
		}
		var kept []Entry
		table.Each(func(e Entry) { kept = append(kept, e) })
		var want []Entry
		for _, e := range oracle.entries[max(0, len(oracle.entries)-most):] {
			if newest := oracle.entries[len(oracle.entries)-1].Stamp; newest-e.Stamp < int64(Window) {
				want = append(want, e)
			}
		}
		if !slices.Equal(kept, want) && now-oracle.entries[len(oracle.entries)-1].Stamp < int64(Window) {
			t.Fatalf("holds %v, want %v", kept, want)
		}
	})
}

func TestKeysComeBackFromTheirForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entry := rapid.Custom(func(t *rapid.T) Entry {
			return Entry{Key: keyOf(rapid.IntRange(0, 1000).Draw(t, "key")), Content: rapid.Uint64().Draw(t, "content"),
				Number: rapid.Uint64Max(1<<62).Draw(t, "number"), Scheduled: rapid.Bool().Draw(t, "scheduled"),
				Stamp: rapid.Int64Range(0, 1<<62).Draw(t, "stamp")}
		})
		in := rapid.SliceOfN(entry, 0, 20).Draw(t, "list")
		out, err := Parse(Append(nil, in))
		if err != nil || !slices.Equal(in, out) {
			t.Fatalf("%v: %v became %v", err, in, out)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(Append(nil, []Entry{{Key: keyOf(1), Number: 3, Stamp: 5}, {Key: keyOf(2), Scheduled: true}}))
	f.Add([]byte{255, 255, 255, 255, 15})
	f.Fuzz(func(t *testing.T, in []byte) {
		list, err := Parse(in)
		form, own, formErr := ReadForm(in, 0)
		if (err == nil) != (formErr == nil) {
			t.Fatalf("as a list: %v, as a form: %v", err, formErr)
		}
		if err == nil && (form.Len() != len(list) || own > len(list)) {
			t.Fatalf("%d keys in the list, %d in the form, %d of them own", len(list), form.Len(), own)
		}
		if err == nil {
			Build([]Form{form})
		}
	})
}

// formsOf are lists of keys as a part of a footer holds them.
func formsOf(t testing.TB, lists [][]Entry) (forms []Form) {
	for _, list := range lists {
		f, _, err := ReadForm(Append(nil, list), 0)
		if err != nil {
			t.Fatal(err)
		}
		forms = append(forms, f)
	}
	return forms
}

// Tables of several lists, some with keys that were carried forward from before, against a map.
func TestBuildTakesTheLatestOfEachKey(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		var lists [][]Entry // the newest first
		latest := map[Key]Entry{}
		stamp, number := int64(0), uint64(0)
		for range rapid.IntRange(0, 8).Draw(t, "lists") {
			var list []Entry
			for range rapid.IntRange(0, 30).Draw(t, "keys") {
				stamp += rapid.Int64Range(1, 3).Draw(t, "later")
				number++
				x := Entry{Key: keyOf(rapid.IntRange(0, 20).Draw(t, "key")), Number: number, Stamp: stamp}
				latest[x.Key] = x
				list = append(list, x)
			}
			if len(lists) > 0 && rapid.Bool().Draw(t, "carried") { // after others that are newer
				list = append(list, lists[0]...)
			}
			lists = append([][]Entry{list}, lists...)
		}
		table := Build(formsOf(tt, lists))
		for i := range 21 {
			got, ok := table.Find(keyOf(i), stamp)
			want, there := latest[keyOf(i)]
			if ok != there || got != want {
				t.Fatalf("key %d: %v %v, want %v %v", i, got, ok, want, there)
			}
		}
	})
}

// A table that is built holds what the oracle's list holds: as many keys as it may have, none out of the window.
func TestBuildKeepsTheWindow(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		var lists [][]Entry // the newest first
		var want []Entry
		stamp := int64(1)
		for i := range rapid.IntRange(1, 6).Draw(t, "lists") {
			var list []Entry
			for k := range rapid.IntRange(0, 20).Draw(t, "keys") {
				stamp += int64(rapid.SampledFrom([]time.Duration{0, 0, 0, 1, time.Minute, 4 * time.Minute, 11 * time.Minute}).Draw(t, "later"))
				list = append(list, Entry{Key: keyOf(rapid.IntRange(0, 60).Draw(t, "key")), Content: uint64(k), Number: uint64(i),
					Scheduled: rapid.Bool().Draw(t, "scheduled"), Stamp: stamp})
			}
			want = append(want, list...)
			lists = slices.Insert(lists, 0, list)
		}
		want = slices.DeleteFunc(want, func(e Entry) bool { return stamp-e.Stamp >= int64(Window) })
		table := Build(formsOf(tt, lists))
		var got []Entry
		table.Each(func(e Entry) { got = append(got, e) })
		if !slices.Equal(got, want) {
			t.Fatalf("holds %v, want %v", got, want)
		}
		oracle := &list{most: MaxKeys, entries: want}
		next := Entry{Key: keyOf(99), Stamp: stamp + int64(rapid.SampledFrom([]time.Duration{0, time.Minute, 9 * time.Minute}).Draw(t, "after"))}
		table.Add(next) // it goes on from there
		oracle.entries = append(oracle.entries, next)
		for i := range 100 {
			got, ok := table.Find(keyOf(i), next.Stamp)
			want, there := oracle.find(keyOf(i), next.Stamp)
			if ok != there || ok && got != want {
				t.Fatalf("key %d: %v %v, want %v %v", i, got, ok, want, there)
			}
		}
	})
}

// Of more keys than a table holds, the newest count, wherever the lists end.
func TestBuildOfTooManyKeys(t *testing.T) {
	var lists [][]Entry
	const each, all = 300_000, 4*300_000 + 5
	for i := 0; i < all; i += each {
		var list []Entry
		for k := i; k < min(i+each, all); k++ {
			list = append(list, Entry{Key: keyOf(k * 7), Number: uint64(k), Stamp: int64(k / 10)})
			binary.LittleEndian.PutUint64(list[len(list)-1].Key[:], uint64(k)*0x9E3779B97F4A7C15)
		}
		lists = slices.Insert(lists, 0, list)
	}
	table := Build(formsOf(t, lists))
	if first := uint64(all - MaxKeys); table.Len() != MaxKeys || table.ring[table.front].number != first {
		t.Fatalf("%d keys from %d, want %d from %d", table.Len(), table.ring[table.front].number, MaxKeys, first)
	}
}

func TestKeysOfABatch(t *testing.T) {
	var b mq.BatchBuilder
	for i := range 4 {
		m := mq.Message{Value: []byte("v"), Lane: mq.LaneNormal}
		if i%2 == 1 {
			m.Idempotency, m.Content = keyOf(i), uint64(i)
		}
		b.Add(&m)
	}
	rec := mq.Record{Kind: mq.KindMessages, Version: 1, Body: b.AppendTo(nil, "", "", mq.CodecNone, nil)}
	var got []Entry
	EachKey(&mq.Entry{Stamp: 9}, 100, rec, func(e Entry) { got = append(got, e) })
	want := []Entry{{Key: keyOf(1), Content: 1, Number: 101, Stamp: 9}, {Key: keyOf(3), Content: 3, Number: 103, Stamp: 9}}
	if !slices.Equal(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// What a million keys take: said in docs/api/duplicates.md.
func TestAMillionKeysInMemory(t *testing.T) {
	table := &Table{}
	for i := range MaxKeys + 1000 {
		var k Key
		binary.LittleEndian.PutUint64(k[:], uint64(i)*0x9E3779B97F4A7C15)
		table.Add(Entry{Key: k, Number: uint64(i), Stamp: int64(i / 100)})
	}
	if table.Len() != MaxKeys {
		t.Fatalf("%d keys", table.Len())
	}
	each := float64(table.Bytes()) / MaxKeys
	t.Logf("%.1f bytes a key at a million", each)
	if each > 45 {
		t.Fatalf("%.1f bytes a key", each)
	}
}

func BenchmarkTable(b *testing.B) {
	for _, held := range []int{1000, MaxKeys} {
		b.Run(fmt.Sprint(held), func(b *testing.B) {
			table := &Table{most: held}
			i := 0
			add := func() {
				var k Key
				binary.LittleEndian.PutUint64(k[:], uint64(i)*0x9E3779B97F4A7C15)
				if _, ok := table.Find(k, int64(i)); !ok {
					table.Add(Entry{Key: k, Number: uint64(i), Stamp: int64(i)})
				}
				i++
			}
			for range held {
				add()
			}
			b.ReportAllocs()
			for b.Loop() {
				add()
			}
		})
	}
}

// BenchmarkBuild is the table of a new leader: keys of 40 segments, ten to an entry. It reports the time of a key.
func BenchmarkBuild(b *testing.B) {
	for _, keys := range []int{52_000, MaxKeys} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			var bodies [][]byte // the newest first
			for i := range 40 {
				var list []Entry
				for k := i * keys / 40; k < (i+1)*keys/40; k++ {
					x := Entry{Number: uint64(k), Content: uint64(k), Stamp: int64(k / 10)}
					binary.LittleEndian.PutUint64(x.Key[:], xxhash.Sum64String(fmt.Sprint(k)))
					list = append(list, x)
				}
				bodies = slices.Insert(bodies, 0, Append(nil, list))
			}
			b.ReportAllocs()
			for b.Loop() {
				var forms []Form
				for _, body := range bodies {
					f, _, err := ReadForm(body, 0)
					if err != nil {
						b.Fatal(err)
					}
					forms = append(forms, f)
				}
				if n := Build(forms).Len(); n != keys {
					b.Fatalf("%d keys", n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*keys), "ns/key")
		})
	}
}
