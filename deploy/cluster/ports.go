package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports between tiers lie below the range from which systems take the ports of outgoing connections (32768 and up on
// Linux): one from there could be in use at the next start.
const (
	firstPort, lastPort = 15_000, 32_000
	// blockSize is more than the largest cluster needs: 5 coordinators with 4 ports each, 32 nodes, 32 gateways, and one
	// port for the metrics of each.
	blockSize = 200
)

// portBlock is a range of ports that one running cluster has for itself. Its first port is listened on as long as the cluster
// runs, which tells other clusters, of this process or another one, to take their ports elsewhere: a port that is free
// when it is chosen may not be used until later, and that of a member that is down must be free when it comes back.
type portBlock struct {
	first int
	guard net.Listener // nil: somebody else has the first port, and nothing is kept from others
}

// takeBlock finds a block that nobody has.
func takeBlock() (*portBlock, error) {
	const blocks = (lastPort - firstPort) / blockSize
	for i, start := 0, rand.IntN(blocks); i < blocks; i++ {
		first := firstPort + (start+i)%blocks*blockSize
		if guard, err := listenOn(first); err == nil {
			return &portBlock{first, guard}, nil
		}
	}
	return nil, fmt.Errorf("no free ports on 127.0.0.1 from %d to %d: other clusters have them all", firstPort, lastPort)
}

// retakeBlock takes the block of an earlier run, in which the ports of its members are. If it is not to be had, they may be
// free nevertheless; if not, the member that fails says which.
func retakeBlock(first int) *portBlock {
	guard, err := listenOn(first)
	if err != nil {
		return &portBlock{first: first}
	}
	return &portBlock{first, guard}
}

// choose finds a port of the block that is not taken by a member, and that no other program uses.
func (b *portBlock) choose(taken map[int]bool) (int, error) {
	for p := b.first + 1; p < b.first+blockSize; p++ {
		if taken[p] {
			continue
		}
		if ln, err := listenOn(p); err == nil {
			return p, ln.Close()
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 from %d to %d", b.first, b.first+blockSize-1)
}

func (b *portBlock) release() error {
	if b.guard == nil {
		return nil
	}
	return b.guard.Close()
}

func listenOn(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
