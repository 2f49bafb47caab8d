package lognode

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/splashdam/splashdam/shared/beat"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// wants is what this node asks of the controller, under /reports/<store id>.
type wants struct {
	n   *Node
	mu  sync.Mutex
	ask map[mq.SegmentID]bool
	// opening are the segments that this node leads and does not serve yet, since when.
	opening map[mq.SegmentID]time.Time
	// added are segments whose copies here are whole, and of which the controller waits to hear that (Node.vouches): said for as long as
	// it does. There are no more of them than copies.
	added map[mq.SegmentID]bool
	// late are followers of segments led here that lack something for too long.
	late map[mq.SegmentID][]mq.StoreID
	wake chan struct{}
}

// reportAll is how often a node looks for something to report although nothing woke it.
const reportAll = time.Minute

// reportRest is how long a report that asks for nothing is kept before its lease is given back. A lease costs calls every second, a new one
// a moment when there is something to ask again.
const reportRest = 30 * time.Second

// openingLong is how long an opening must last before the controller hears of it: most are over sooner.
const openingLong = 500 * time.Millisecond

func newWants(n *Node) *wants {
	return &wants{n: n, ask: map[mq.SegmentID]bool{}, opening: map[mq.SegmentID]time.Time{}, added: map[mq.SegmentID]bool{},
		late: map[mq.SegmentID][]mq.StoreID{}, wake: make(chan struct{}, 1)}
}

// opens says that a segment begins to open here, or that it serves or is given up.
func (w *wants) opens(id mq.SegmentID, begins bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if begins {
		w.opening[id] = time.Now()
		time.AfterFunc(openingLong, w.again)
		return
	}
	if time.Since(w.opening[id]) >= openingLong {
		w.again()
	}
	delete(w.opening, id)
}

// seal asks for segments to be sealed, for all of them in the same report; it never blocks.
func (w *wants) seal(reason string, ids ...mq.SegmentID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if !w.ask[id] {
			w.ask[id] = true
			w.n.log.Info("the controller is asked for a seal", "segment", id, "reason", reason)
			w.again()
		}
	}
}

// copied says that a segment is whole here of which the controller waits to hear that.
func (w *wants) copied(id mq.SegmentID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.added[id] {
		w.added[id] = true
		w.again()
	}
}

// maxCopied bounds a report: what does not fit is said after the rest was heard. All nodes say the lowest first, as several have to vouch for
// the same segment.
const maxCopied = 1000

// heard forgets segments of which the controller waits for nothing any more.
func (w *wants) heard(still func(mq.SegmentID) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.added {
		if !still(id) {
			delete(w.added, id)
		}
	}
}

// run writes the report on change, at most once a second but at once after a pause, and pokes the controller.
func (w *wants) run() {
	var lease *meta.Registration
	defer func() {
		if lease != nil {
			lease.Close()
		}
	}()
	changes, cancel := w.n.view.Subscribe()
	defer cancel()
	said, silent := "", ""
	tick := beat.NewTicker(silenceEvery)
	defer tick.Stop()
	all := time.Now().Add(reportAll)
	var rest time.Time // until when an empty report is kept
	for {
		select {
		case <-w.wake:
		case <-changes:
		case now := <-tick.C: // who falls silent makes no sound
			if lease != nil && said == "" && now.After(rest) {
				lease.Close()
				lease = nil
			}
			was := silent
			if silent = w.n.peers.silence(now); silent == was && now.Before(all) {
				continue
			}
			all = now.Add(reportAll)
		case <-w.n.ctx.Done():
			return
		}
		began := time.Now()
		report, text := w.report()
		if text == said {
			// With many partitions a look takes milliseconds, and changes come in swarms: a tenth of a core at most is for this.
			if !w.pause(min(10*time.Since(began), time.Second)) {
				return
			}
			continue
		}
		if err := w.write(&lease, report); err != nil {
			w.n.log.Warn("the report to the controller could not be written", "err", err)
			w.again()
		} else {
			said, rest = text, time.Now().Add(reportRest)
			w.n.bus.Look("report of " + w.n.cfg.Name)
		}
		if !w.pause(time.Second) {
			return
		}
		w.again()
	}
}

// pause is false when the node ended.
func (w *wants) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.n.ctx.Done():
		return false
	}
}

func (w *wants) again() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// report is what there is to ask now, also as text to compare with what was said.
func (w *wants) report() (meta.Report, string) {
	id := w.n.store.Identity()
	r := meta.Report{Store: id.Store}
	led := map[mq.SegmentID]bool{}
	now := time.Now()
	for _, h := range w.n.view.HeadsOf(id.Store) {
		if h.Open == nil {
			continue
		}
		if led[h.Open.ID] = h.Open.Leader == id; led[h.Open.ID] && len(r.Behind) < maxBehind {
			if stores := w.behind(h.Open, now); len(stores) > 0 {
				r.Behind = append(r.Behind, meta.Behind{Segment: h.Open.ID, Stores: stores})
			}
		}
		if info, ok := w.n.store.Segment(h.Open.ID); ok && info.SealFlag {
			r.SealFlags = append(r.SealFlags, h.Open.ID)
		}
	}
	w.mu.Lock()
	for s := range w.ask {
		if open, known := led[s]; known && open {
			r.SealWanted = append(r.SealWanted, s)
		} else {
			delete(w.ask, s) // sealed meanwhile, or replaced
		}
	}
	for s, since := range w.opening {
		if time.Since(since) >= openingLong {
			r.Opening = append(r.Opening, s)
		}
	}
	for s := range w.late {
		if !led[s] {
			delete(w.late, s)
		}
	}
	r.Copied = w.whole()
	w.mu.Unlock()
	slices.Sort(r.SealFlags)
	slices.Sort(r.SealWanted)
	slices.Sort(r.Opening)
	slices.SortFunc(r.Behind, func(a, b meta.Behind) int { return cmp.Compare(a.Segment, b.Segment) })
	if len(r.SealFlags)+len(r.SealWanted)+len(r.Opening)+len(r.Copied)+len(r.Behind) == 0 {
		return r, ""
	}
	text, _ := json.Marshal(r)
	return r, string(text)
}

// whole are the copies that this node has said are whole, without those that were found damaged since, or are gone: the
// controller lets a lost store go for them. w.mu is held.
func (w *wants) whole() (out []mq.SegmentID) {
	for _, id := range slices.Sorted(maps.Keys(w.added)) {
		if len(out) == maxCopied {
			break
		}
		if info, ok := w.n.store.Segment(id); ok && !info.Damaged {
			out = append(out, id)
		} else {
			delete(w.added, id)
		}
	}
	return out
}

func (w *wants) write(lease **meta.Registration, r meta.Report) error {
	ctx, cancel := context.WithTimeout(w.n.ctx, 5*time.Second)
	defer cancel()
	if *lease != nil {
		return (*lease).Update(ctx, r)
	}
	made, err := w.n.meta.Register(ctx, meta.ReportKey(r.Store), r, w.n.cfg.LeaseTTL, nil)
	if err == nil {
		*lease = made
	}
	return err
}
