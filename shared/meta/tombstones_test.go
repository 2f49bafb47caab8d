package meta

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// A set of runs holds what a map holds, in the fewest runs, and comes back from its JSON.
func TestTopicSetIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Custom(func(t *rapid.T) mq.TopicID { return mq.TopicID(rapid.IntRange(1, 40).Draw(t, "id")) })
		set, model := TopicSet{}, map[mq.TopicID]bool{}
		for range rapid.IntRange(0, 8).Draw(t, "folds") {
			ids := rapid.SliceOfN(id, 0, 8).Draw(t, "ids")
			before, had := set, len(model)
			set = set.With(ids...)
			if before.Count() != int64(had) {
				t.Fatalf("With changed the set that it was called on to %v", before)
			}
			for _, id := range ids {
				model[id] = true
			}
		}
		runs, last := 0, mq.TopicID(0)
		for id := mq.TopicID(0); id <= 42; id++ {
			if set.Has(id) != model[id] {
				t.Fatalf("%v has %d: %t", set, id, set.Has(id))
			}
			if model[id] && !model[id-1] {
				runs++
			}
			if model[id] {
				last = id
			}
		}
		if set.Count() != int64(len(model)) || len(set.runs) != runs || set.Last() != last {
			t.Fatalf("%v has %d of %d, last %d of %d, %d runs", set, set.Count(), len(model), set.Last(), last, runs)
		}
		text, err := json.Marshal(set)
		var back TopicSet
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || !slices.Equal(back.runs, set.runs) {
			t.Fatalf("%s came back as %v: %v", text, back, err)
		}
	})
}

func TestTopicSetRefusesWhatItDoesNotWrite(t *testing.T) {
	for _, text := range []string{`[[5,4]]`, `[[1,3],[3,4]]`, `[[1,3],[4,5]]`, `[[7,8],[1,2]]`, `{}`, `[[-1,2]]`, `[["a",2]]`} {
		set := NewTopicSet(9)
		if err := json.Unmarshal([]byte(text), &set); err == nil || !set.Has(9) {
			t.Errorf("%s: %v, %v", text, set, err)
		}
	}
}

// Topics that were deleted stay deleted when their tombstones are folded: for who watches, for who comes later, and in a mirror.
// Their names are free, and a living topic of the same name is not touched.
func TestFoldedTombstonesAreKnown(t *testing.T) {
	s, ctx := testStore(t)
	v := NewView(s, quiet())
	runView(t, ctx, v)
	ids := map[string]mq.TopicID{}
	for _, name := range []string{"a", "b", "lives", "c"} {
		topic, err := s.CreateTopic(ctx, name, mq.DefaultTopicSettings())
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = topic.ID
	}
	gone := []mq.TopicID{ids["a"], ids["b"], ids["c"]}
	for _, name := range []string{"a", "b", "c"} {
		if err := s.DeleteTopic(ctx, name, 0); err != nil {
			t.Fatal(err)
		}
	}
	again, err := s.CreateTopic(ctx, "b", mq.DefaultTopicSettings()) // the name is used again
	if err != nil {
		t.Fatal(err)
	}
	waitFor := func(what string, v *View, ok func(*View) bool) {
		t.Helper()
		if err := v.WaitFor(ctx, ok); err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
	waitFor("tombstones", v, func(v *View) bool { return len(v.DeletedTopics()) == 3 })
	before := v.DeletedTopics()
	if n, err := s.FoldTombstones(ctx, before); n != 3 || err != nil {
		t.Fatalf("folded %d: %v", n, err)
	}
	waitFor("the fold", v, func(v *View) bool { return len(v.DeletedTopics()) == 0 })
	waitFor("the name's next topic", v, func(v *View) bool { b, _ := v.Topic("b"); return b.ID == again.ID }) // another prefix, another watch
	late := NewView(s, quiet())
	runView(t, ctx, late)
	for name, v := range map[string]*View{"who watched": v, "who came late": late} {
		d := v.Deletions()
		if d.Count() != 3 || d.Has(ids["lives"]) || d.Has(again.ID) {
			t.Errorf("%s knows %d, the living ones %t and %t", name, d.Count(), d.Has(ids["lives"]), d.Has(again.ID))
		}
		for _, id := range gone {
			if topic, ok := v.TopicByID(id); !ok || !topic.Deleted || !d.Has(id) {
				t.Errorf("%s: topic %d is %+v, %t", name, id, topic, ok)
			}
		}
		if topic, ok := v.Topic("b"); !ok || topic.ID != again.ID {
			t.Errorf("%s: b is %+v, %t", name, topic, ok)
		}
	}
	m, err := s.ReadMirror(ctx, "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	var mirrored TopicSet
	var left []string
	for _, kv := range m.Keys {
		if set, ok := TombstonesOf(kv); ok {
			mirrored = set
			left = append(left, kv.Key)
		} else if isTopic(kv.Key) {
			left = append(left, kv.Key)
		}
	}
	if want := NewTopicSet(gone...); !slices.Equal(mirrored.runs, want.runs) || fmt.Sprint(left) != "[/deleted/folded /topics/b /topics/lives]" {
		t.Errorf("the mirror has %v in %v, want %v", mirrored, left, want)
	}
	// Somebody who decided on what has changed meanwhile changes nothing.
	if n, err := s.FoldTombstones(ctx, before); n != 0 || err != nil {
		t.Errorf("folded %d again: %v", n, err)
	}
}
