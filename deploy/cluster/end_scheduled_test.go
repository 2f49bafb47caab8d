package cluster

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// waiting is what a test scheduled: when each value that was not cancelled is due, and its id.
type waiting struct {
	due map[string]time.Time
	id  map[string]string
}

// scheduleMany schedules value-0 to value-<n-1>, due from first on, step apart, each with an idempotency key.
func (w *waiting) scheduleMany(t *testing.T, sdk *client.Client, topic, value string, n int, first time.Time, step time.Duration) {
	t.Helper()
	batch := make([]client.Message, n)
	for i := range batch {
		name := fmt.Sprintf("%s-%d", value, i)
		batch[i] = client.Message{Value: []byte(name), IdempotencyKey: name, Key: &name, DeliverAt: first.Add(time.Duration(i) * step)}
	}
	results, err := sdk.PublishBatch(t.Context(), topic, batch)
	must(t, err)
	for i, r := range results {
		name := string(batch[i].Value)
		// Without a time it was overtaken by the clock, on a machine that is busy: an ordinary message then.
		if r.Err != nil || !r.DeliverAt.IsZero() && !r.DeliverAt.Equal(batch[i].DeliverAt) {
			t.Fatalf("%s: %v, due %s instead of %s", name, r.Err, r.DeliverAt, batch[i].DeliverAt)
		}
		w.due[name], w.id[name] = batch[i].DeliverAt, r.ID
	}
}

// repeat publishes values again, with the same keys: the answer is the schedule of the first time.
func (w *waiting) repeat(t *testing.T, sdk *client.Client, topic string, first map[string]time.Time) {
	t.Helper()
	for name, at := range first {
		r, err := sdk.Publish(t.Context(), topic, client.Message{Value: []byte(name), IdempotencyKey: name, Key: &name, DeliverAt: at})
		if err != nil || !r.Duplicate || r.ID != w.id[name] {
			t.Errorf("%s again: %+v %v, want a duplicate of %s", name, r, err, w.id[name])
		}
	}
}

// receiveAll receives and acknowledges until everything that is due was there, and calls each for every value that is new.
// What is refused meanwhile is tried again.
func (w *waiting) receiveAll(t *testing.T, c caller, topic string, each func(int)) {
	t.Helper()
	ctx := ctxFor(t)
	seen := map[string]bool{}
	path, body := c.asReceive(topic, "g", "max=50&wait=1s")
	for len(seen) < len(w.due) {
		status, text, err := c.try(ctx, "POST", path, body)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d came: %v", len(seen), len(w.due), err)
		}
		if err != nil || status != 200 {
			continue
		}
		now := time.Now()
		var got struct{ Messages []message }
		must(t, json.Unmarshal(text, &got))
		for _, m := range got.Messages {
			due, ok := w.due[m.Value]
			if !ok || now.Before(due) || m.ID != w.id[m.Value] {
				t.Errorf("%s (%s) came at %s, due at %s as %s", m.Value, m.ID, now, due, w.id[m.Value])
			}
			c.try(ctx, "POST", "/v1/ack", m.Receipt) // one that fails brings it back: as any message, it comes at least once
			if !seen[m.Value] {
				seen[m.Value] = true
				each(len(seen))
			}
		}
	}
}

// checkReleased says whether the topic holds each message that is due exactly once, none before its time, and no other.
func (w *waiting) checkReleased(t *testing.T, sdk *client.Client, topic string, partitions uint32) {
	t.Helper()
	times := map[string]int{}
	for p := range partitions {
		read, err := sdk.Read(t.Context(), topic, client.ReadOptions{Partition: &p, From: "earliest", Limit: 1000})
		must(t, err)
		for _, m := range read.Messages {
			name := string(m.Value)
			times[name]++
			if due, ok := w.due[name]; !ok || m.Timestamp.Before(due) {
				t.Errorf("%s was released at %s, due at %s", name, m.Timestamp, due)
			}
		}
	}
	for name := range w.due {
		if times[name] != 1 {
			t.Errorf("%s was released %d times", name, times[name])
		}
	}
}

// TestMuseum19SchedulesAreReleasedOnceThroughFailovers: leaders are killed while schedules are due all the time. What the
// next leader finds in the journal comes, once and not early, at the time that counts last; what was cancelled does not.
func TestMuseum19SchedulesAreReleasedOnceThroughFailovers(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3, Gateways: 2})
	one := via(t, c, 1)
	one.topic("later", `{"partitions":2,"replicas":3}`)
	sdk, err := client.New(client.Options{Servers: c.URLs()})
	must(t, err)
	defer sdk.Close()
	w := &waiting{map[string]time.Time{}, map[string]string{}}
	begin := time.Now().Truncate(time.Millisecond).Add(2 * time.Second)
	w.scheduleMany(t, sdk, "later", "plain", 150, begin, 20*time.Millisecond)
	w.scheduleMany(t, sdk, "later", "sooner", 10, begin.Add(time.Hour), 0)
	w.scheduleMany(t, sdk, "later", "later", 10, begin.Add(500*time.Millisecond), 0)
	w.scheduleMany(t, sdk, "later", "cancelled", 10, begin.Add(2500*time.Millisecond), 0)
	first := map[string]time.Time{"plain-3": w.due["plain-3"], "sooner-1": w.due["sooner-1"], "later-2": w.due["later-2"], "cancelled-4": w.due["cancelled-4"]}
	for i := range 10 {
		w.retime(t, sdk, fmt.Sprintf("sooner-%d", i), begin.Add(1500*time.Millisecond))
		w.retime(t, sdk, fmt.Sprintf("later-%d", i), begin.Add(2*time.Second))
	}
	var dead *Member
	w.cancelSome(t, sdk, 0, 5)
	w.receiveAll(t, one, "later", func(n int) {
		if n%60 != 10 {
			return
		}
		leader := c.NodeNamed(one.leader("later", n/60%2))
		if leader == nil || leader == dead { // nobody leads at the moment
			return
		}
		must(t, leader.Kill())
		if n == 10 { // this one stays away: another node takes over what it had
			dead = leader
			w.cancelSome(t, sdk, 5, 10)
			return
		}
		must(t, leader.Start(ctxFor(t)))
	})
	if dead != nil {
		must(t, dead.Start(ctxFor(t)))
	}
	w.checkReleased(t, sdk, "later", 2)
	w.repeat(t, sdk, "later", first)
	for name, code := range map[string]mqerr.Code{"plain-0": mqerr.AlreadyReleased, "sooner-9": mqerr.AlreadyReleased} {
		if _, err := sdk.CancelScheduled(t.Context(), w.id[name], false); !client.IsCode(err, code) {
			t.Errorf("cancel of %s: %v", name, err)
		}
	}
	w.checkReleased(t, sdk, "later", 2) // the repetitions made none
}

func (w *waiting) retime(t *testing.T, sdk *client.Client, name string, at time.Time) {
	t.Helper()
	r, err := sdk.RetimeScheduled(t.Context(), w.id[name], at)
	// A busy machine: it was due before this call came to the leader, or before it was repeated because of a lost answer.
	if earliest := earlier(w.due[name], at); client.IsCode(err, mqerr.AlreadyReleased) && time.Now().After(earliest) {
		w.due[name] = earliest
		return
	}
	if err != nil || r.DeliverAt.Before(at) { // later is now: the time has passed
		t.Fatalf("%s: %+v %v", name, r, err)
	}
	w.due[name] = r.DeliverAt
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// cancelSome cancels cancelled-<from> to cancelled-<to-1>. What is released while that is tried counts as any other.
func (w *waiting) cancelSome(t *testing.T, sdk *client.Client, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		name := fmt.Sprintf("cancelled-%d", i)
		_, err := sdk.CancelScheduled(t.Context(), w.id[name], false)
		switch {
		case err == nil:
			delete(w.due, name)
		case !client.IsCode(err, mqerr.AlreadyReleased):
			t.Errorf("cancel of %s: %v", name, err)
		}
	}
}

// TestMuseum42SchedulesWaitThroughARestartOfEverything: after it nothing is there that is not due, and what is due comes.
func TestMuseum42SchedulesWaitThroughARestartOfEverything(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir(), Nodes: 3, Coordinators: 3}
	c := start(t, o)
	via(t, c, 1).topic("later", `{"partitions":2,"replicas":3}`)
	sdk, err := client.New(client.Options{Servers: c.URLs()}) // the addresses stay
	must(t, err)
	defer sdk.Close()
	w := &waiting{map[string]time.Time{}, map[string]string{}}
	begin := time.Now().Truncate(time.Millisecond)
	w.scheduleMany(t, sdk, "later", "plain", 40, begin.Add(1500*time.Millisecond), 100*time.Millisecond)
	w.scheduleMany(t, sdk, "later", "cancelled", 2, begin.Add(5*time.Second), 0)
	w.scheduleMany(t, sdk, "later", "far", 3, begin.Add(time.Hour), 0)
	first := map[string]time.Time{"plain-39": w.due["plain-39"], "far-0": w.due["far-0"]}
	w.cancelSome(t, sdk, 0, 2)
	must(t, c.Stop(ctxFor(t)))
	c = start(t, o)
	w.repeat(t, sdk, "later", first)
	pending := w.pending(t, sdk)
	for _, name := range []string{"far-0", "far-1", "far-2"} {
		if !slices.Contains(pending, w.id[name]) {
			t.Errorf("%s (%s) is not among the pending %v", name, w.id[name], pending)
		}
		w.retime(t, sdk, name, begin.Add(4*time.Second))
	}
	w.receiveAll(t, via(t, c, 1), "later", func(int) {})
	w.checkReleased(t, sdk, "later", 2)
	if left := w.pending(t, sdk); len(left) > 0 {
		t.Errorf("pending after all: %v", left)
	}
}

// pending are the ids that wait.
func (w *waiting) pending(t *testing.T, sdk *client.Client) (ids []string) {
	t.Helper()
	list, err := sdk.Scheduled(t.Context(), "later", client.Page{Limit: 1000})
	must(t, err)
	for _, s := range list.Scheduled {
		ids = append(ids, s.ID)
		if s.State != api.StateScheduled || list.NextCursor != "" {
			t.Errorf("listed: %+v %q", s, list.NextCursor)
		}
	}
	return ids
}
