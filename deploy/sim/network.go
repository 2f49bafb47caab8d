package sim

// network carries messages between processes. A message may be late, lost in a cut, or find its receiver gone. Messages
// of calls overtake each other; those of a stream do not (stream.go).
type network struct {
	s   *scheduler
	cut map[[2]int]int64 // until when nothing gets from one process to another
}

const callTimeout = 500 * millisecond

func (n *network) open(from, to *process) bool { return n.cut[[2]int{from.id, to.id}] <= n.s.now }

// delay is how long the next message takes.
func (n *network) delay(from, to *process) int64 {
	d := n.s.between(50_000, 900_000)
	if n.s.rng.IntN(200) == 0 {
		d += n.s.between(0, 30*millisecond)
	}
	if from.slow > n.s.now || to.slow > n.s.now {
		d += n.s.between(0, 250*millisecond)
	}
	return d
}

// send carries f to a process, or loses it.
func (n *network) send(from, to *process, f func()) {
	lossy := (from.lossy > n.s.now || to.lossy > n.s.now) && n.s.chance(20)
	if !n.open(from, to) || lossy || !to.up {
		return
	}
	n.s.in(n.delay(from, to), to, f)
}

// call runs a request at a process and brings the answer back: done hears it once, or false after a while. Where
// nobody listens that is known soon.
func (n *network) call(from, to *process, timeout int64, run func(reply func(any)), done func(any, bool)) {
	over := false
	finish := func(res any, ok bool) {
		if !over {
			over = true
			done(res, ok)
		}
	}
	if !to.up && n.open(from, to) {
		timeout = min(timeout, n.s.between(1, 5)*millisecond)
	}
	n.s.in(timeout, from, func() { finish(nil, false) })
	gen := from.gen
	n.send(from, to, func() {
		answered := false
		run(func(res any) {
			if answered || from.gen != gen {
				return
			}
			answered = true
			n.send(to, from, func() { finish(res, true) })
		})
	})
}

// stream is the one connection on which a node sends its entries to another and gets acknowledgements back: in
// order, or not at all. Once something is lost everything behind it is, until both ends notice and it begins anew.
type stream struct {
	n          *network
	from, to   *process
	fromG, toG int
	up         bool // the dialer has heard an answer
	epoch      int
	last       [2]int64 // when the latest message of each direction arrives
	broken     bool
	onUp       func()
	onDown     func()
}

// dial opens the stream again and again while the dialer's run lives.
func (st *stream) dial() {
	s := st.n.s
	if st.from.gen != st.fromG {
		return
	}
	s.in(200*millisecond, st.from, st.dial)
	if st.up || !st.to.up || !st.n.open(st.from, st.to) || !st.n.open(st.to, st.from) {
		return
	}
	st.epoch++
	st.up, st.broken, st.toG = true, false, st.to.gen
	st.last = [2]int64{s.now, s.now}
	st.onUp()
}

// put sends in one direction: 0 to the follower, 1 back. false if there is no stream.
func (st *stream) put(direction int, f func()) bool {
	s := st.n.s
	a, b, gen := st.from, st.to, st.toG
	if direction == 1 {
		a, b, gen = st.to, st.from, st.fromG
	}
	if !st.up {
		return false
	}
	if b.gen != gen || !st.n.open(a, b) {
		st.lose()
	}
	if st.broken {
		return true // it went into a buffer that nobody will read
	}
	at := max(st.last[direction]+1, s.now+st.n.delay(a, b))
	st.last[direction] = at
	epoch := st.epoch
	s.in(at-s.now, b, func() {
		if st.epoch == epoch && st.up {
			f()
		}
	})
	return true
}

// lose breaks the stream; its ends notice later.
func (st *stream) lose() {
	if st.broken || !st.up {
		return
	}
	st.broken = true
	s, epoch := st.n.s, st.epoch
	after := s.between(500*millisecond, 2*second) // no answer to keepalives
	if st.to.gen != st.toG {
		after = s.between(1, 20) * millisecond // reset by the kernel
	}
	s.in(after, st.from, func() {
		if st.epoch == epoch && st.up && st.from.gen == st.fromG {
			st.up = false
			st.onDown()
		}
	})
}
