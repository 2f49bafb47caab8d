package store

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/shared/mq"
)

// Store is a node's data directory. All methods may be called from any goroutine.
type Store struct {
	cfg     Config
	root    string // the volumes' directory
	log     *slog.Logger
	lock    *os.File
	facts   *facts
	ledger  *ledger
	space   *space
	metrics *metrics
	probes  *prober

	// intactMu lets one walk through a damaged segment go on at a time; it is taken before mu.
	intactMu sync.Mutex

	// mu guards what reads look up. It is never held over I/O.
	mu       sync.RWMutex
	segments map[mq.SegmentID]*segment
	// replacing are the new copies that are made beside damaged ones; nobody reads them yet.
	replacing map[mq.SegmentID]*segment
	volumes   map[uint32]*volume // all that exist, next included
	active    *volume            // takes the entries; changed by the committer only
	next      *volume            // opened ahead by the janitor; nil while it is not ready, or not needed soon
	forced    bool               // the committer waits for next, however little there is in active
	number    uint32             // the highest volume number ever used
	// activeParts are the parts in the active volume; activeSeen are all segments that have keys in it,
	// removed ones too. Both are the committer's.
	activeParts map[mq.SegmentID]*part
	activeSeen  map[mq.SegmentID]struct{}
	// moved are the segments whose tail went on since the ledger last looked.
	moved map[mq.SegmentID]struct{}

	footers sync.Mutex // one footer is written or removed at a time

	holds   *holds
	queue   *queue
	failure *failure

	stop       chan struct{}      // closed by Close for ledger and janitor
	pokeLedger chan struct{}      // capacity 1: something moved
	pokeJan    chan struct{}      // capacity 1: look at the volumes
	reclaim    chan chan struct{} // a pass of the janitor; the answer is its closing
	nextReady  chan struct{}      // capacity 1: next was set
	committed  chan struct{}      // closed when the committer ended
	background sync.WaitGroup
	damages    atomic.Uint64 // segments that reads found damaged
	damaged    chan struct{} // capacity 1: another one was
	closing    atomic.Bool   // set before the volumes are closed for good
	closeOnce  sync.Once
	closeErr   error
}

// Open opens or makes the store in cfg.Dir, raises its boot number, checks every open segment against the
// ledger and starts its goroutines. Damage to entries does not fail it: it shows in SegmentInfo.Damaged.
// It fails with ErrLocked when another process has the directory, with ErrFactsDamaged when the node's
// facts can't be trusted, with ErrStorageFull when there is no room to open Badger in.
// reg may be nil; the metrics are unregistered by Close.
func Open(cfg Config, log *slog.Logger, reg prometheus.Registerer) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := newStore(cfg, log, lock)
	if err := s.open(reg); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

func newStore(cfg Config, log *slog.Logger, lock *os.File) *Store {
	s := &Store{
		cfg: cfg, root: filepath.Join(cfg.Dir, "volumes"), log: log, lock: lock,
		segments:    map[mq.SegmentID]*segment{},
		replacing:   map[mq.SegmentID]*segment{},
		volumes:     map[uint32]*volume{},
		activeParts: map[mq.SegmentID]*part{},
		activeSeen:  map[mq.SegmentID]struct{}{},
		moved:       map[mq.SegmentID]struct{}{},
		holds:       newHolds(),
		failure:     newFailure(),
		stop:        make(chan struct{}),
		damaged:     make(chan struct{}, 1),
		pokeLedger:  make(chan struct{}, 1),
		pokeJan:     make(chan struct{}, 1),
		reclaim:     make(chan chan struct{}),
		nextReady:   make(chan struct{}, 1),
		committed:   make(chan struct{}),
	}
	s.queue = newQueue(cfg.QueueBytes)
	s.metrics = newMetrics(s)
	s.space = newSpace(cfg, log)
	return s
}

func (s *Store) open(reg prometheus.Registerer) (err error) {
	if err := s.space.prepare(); err != nil {
		return err
	}
	var holes int
	if s.ledger, holes, err = openLedger(s.cfg.Dir); err != nil {
		return err
	}
	if s.facts, err = openFacts(s.cfg.Dir, s.ledger); err != nil {
		return err
	}
	s.ledger.facts = &s.facts.durable
	if s.ledger.lacks(s.facts.marks) {
		holes++
	}
	if err := os.MkdirAll(s.root, 0o755); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := recoverVolumes(s, holes); err != nil {
		return err
	}
	if s.probes, err = newProber(&s.cfg); err != nil {
		return err
	}
	if err := s.metrics.register(reg); err != nil {
		return err
	}
	s.sweepFooters()
	s.space.tend()
	s.log.Info("store is open", "dir", s.cfg.Dir, "incarnation", s.Identity(), "segments", len(s.segments), "volumes", len(s.volumes))
	go func() {
		defer close(s.committed)
		s.commitLoop()
	}()
	s.background.Go(s.ledgerLoop)
	s.background.Go(s.janitorLoop)
	poke(s.pokeJan)
	poke(s.pokeLedger)
	return nil
}

// Close commits what is queued, writes the last marks and the active volume's list, and closes everything.
// It waits for the goroutines and for readers that are under way. After a failure it only closes.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.queue.close()
		<-s.committed
		close(s.stop)
		s.background.Wait()
		var errs []error
		if s.Err() == nil {
			errs = append(errs, s.ledger.record(s.collectMoved))
		}
		errs = append(errs, s.release())
		s.closeErr = errors.Join(errs...)
		s.failure.set(ErrClosed)
	})
	return s.closeErr
}

// release closes what open opened, in reverse order; also when open failed half-way.
func (s *Store) release() error {
	var errs []error
	failed := s.Err() != nil
	s.closing.Store(true)
	s.metrics.unregister()
	if s.probes != nil {
		errs = append(errs, s.probes.close())
	}
	var list *volumeList
	if s.active != nil && !failed {
		list = s.listOf(s.active)
		list.Active = true
	}
	for _, v := range s.volumes {
		err := v.close()
		if v == s.active && err == nil && v.log.err() != nil {
			err = v.log.err()
		}
		if v == s.active && err != nil {
			list = nil // the next start looks into it itself
		}
		errs = append(errs, err)
	}
	if list != nil {
		errs = append(errs, list.write(s.root))
	}
	if s.ledger != nil && s.ledger.log != nil {
		errs = append(errs, s.ledger.log.close())
	}
	if s.facts != nil {
		errs = append(errs, s.facts.log.close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// Identity is this run of this store: its id and boot number.
func (s *Store) Identity() mq.Incarnation {
	s.facts.mu.Lock()
	defer s.facts.mu.Unlock()
	return mq.Incarnation{Store: s.facts.store, Boot: s.facts.boot}
}

// Failed is closed when a write failed (Err says how) or the store was closed. A store that failed
// acknowledges nothing any more; the node must stop.
func (s *Store) Failed() <-chan struct{} { return s.failure.done }

// Err is why the store failed, or nil.
func (s *Store) Err() error { return s.failure.get() }

// fail makes err the store's end, if it is the first one.
func (s *Store) fail(err error) error {
	if s.failure.set(err) {
		s.log.Error("store failed; nothing is acknowledged from here on", "error", err)
	}
	return err
}

// failure is a first error and a channel that closes with it.
type failure struct {
	mu   sync.Mutex
	err  error
	done chan struct{}
}

func newFailure() *failure { return &failure{done: make(chan struct{})} }

func (f *failure) set(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return false
	}
	f.err = err
	close(f.done)
	return true
}

func (f *failure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// poke wakes a goroutine that has a channel of capacity 1; the truth is elsewhere.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
