package delivery

import (
	"math"

	"github.com/splashdam/splashdam/shared/mq"
)

// Between lanes. Weighted: smooth weighted round robin. With each hand-over every lane that has something gets credit by
// its weight, and the one with the most gives a message and pays the weights of all. So in any stretch of as many
// hand-overs as the weights sum up to, each lane gets its weight, the lowest one too, and credit stays within that sum.
// It is kept across calls, and forgotten for a lane that has nothing: what is idle saves nothing up. A message that is
// given back gives its credit back, so that what does not fit into answers is not always the same lane's.

// share is how many of the next n messages each lane gives.
func (m *Machine) share(g *group, n int) (share [mq.Lanes]int) {
	if !m.lanes.used && g.special() == 0 {
		share[mq.LaneNormal] = n
		return share
	}
	have := m.available(g)
	if g.Settings.Lanes.Strict() {
		for l := range have {
			share[l] = min(have[l], n)
			n -= share[l]
		}
		return share
	}
	weight := g.weights(&have)
	g.capInFlight(&have, &weight)
	for n > 0 {
		all, rounds, most := 0, n, 0
		for l, w := range weight {
			if have[l] == 0 {
				weight[l], g.credit[l] = 0, 0
				continue
			}
			all += w
			most = max(most, g.credit[l])
			rounds = min(rounds, have[l]/w)
		}
		if all == 0 {
			break
		}
		// Whole rounds give each its weight and change no credit; but first what is owed from returns.
		if rounds = min(rounds, n/all); rounds > 0 && most < all {
			for l, w := range weight {
				share[l] += rounds * w
				have[l] -= rounds * w
			}
			n -= rounds * all
			continue
		}
		best := -1
		for l, w := range weight {
			if g.credit[l] += w; w > 0 && (best < 0 || g.credit[l] > g.credit[best]) {
				best = l
			}
		}
		g.credit[best] -= all
		share[best]++
		have[best]--
		n--
	}
	return share
}

// refund takes back that a lane gave a message.
func (g *group) refund(l mq.Lane) {
	if !g.m.lanes.used {
		return
	}
	have := g.m.available(g)
	have[l]++
	all := 0
	for l, w := range g.weights(&have) {
		g.credit[l] -= w
		all += w
	}
	g.credit[l] += all
}

// special is how many messages that are out are ready in another lane than the normal one: the catalog may have
// forgotten about them.
func (g *group) special() int { return g.count[StateReady] - g.inLane[mq.LaneNormal][StateReady] }

// available is how many messages of each lane could be handed out if there were no others.
func (m *Machine) available(g *group) (have [mq.Lanes]int) {
	if g.keyed != nil {
		return g.keyed.ready
	}
	room := min(m.freshRoom(g), MaxReceive)
	for l := range have {
		have[l] = g.inLane[l][StateReady] + int(min(g.seenIn(mq.Lane(l)), room))
	}
	return have
}

// weights are those of the lanes that have something, 0 for the others.
func (g *group) weights(have *[mq.Lanes]int) (weight [mq.Lanes]int) {
	for l := range weight {
		if have[l] > 0 {
			weight[l] = g.Settings.Lanes.Weight(mq.Lane(l))
		}
	}
	return weight
}

// capInFlight limits what the lanes have to their weight's share of max_in_flight while they compete for it.
func (g *group) capInFlight(have, weight *[mq.Lanes]int) {
	all, lanes := 0, 0
	for _, w := range weight {
		if all += w; w > 0 {
			lanes++
		}
	}
	if lanes < 2 {
		return
	}
	for l, w := range weight {
		if w > 0 {
			most := max(1, g.Settings.MaxInFlight*w/all)
			have[l] = max(0, min(have[l], most-g.inLane[l][StateLeased]))
		}
	}
}

// shareable is how many messages the lanes' shares of max_in_flight let out now.
func (m *Machine) shareable(g *group) (n int) {
	if g.Settings.Lanes.Strict() {
		return math.MaxInt32
	}
	have := m.available(g)
	weight := g.weights(&have)
	g.capInFlight(&have, &weight)
	for _, h := range have {
		n += h
	}
	return n
}
