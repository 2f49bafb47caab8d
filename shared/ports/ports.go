// Package ports gives clusters on one machine ports that they keep. A port that is free when it is chosen need not be free when it
// is used, or used again after a restart; here it is, as far as others choose theirs here, too. It is for local
// clusters and tests: in production everybody is told where to listen.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	// low and high lie below the range from which systems take the ports of outgoing connections (32768 and up on Linux):
	// one from there could be in use at the next start.
	low, high = 15_000, 32_000
	// blockSize is more than the largest local cluster needs: 5 coordinators with 4 ports each, 32 nodes, 32 gateways, and one
	// port for the metrics of each.
	blockSize = 200
)

// Block is a range of ports of 127.0.0.1 that one cluster has for itself. Its first port is listened on until Release, which
// tells other clusters, of this process or another one, to take their ports elsewhere. One goroutine uses it.
type Block struct {
	first int
	guard net.Listener // nil: somebody else has the first port, and nothing is kept from others
}

// Take finds a block that nobody has; an error says that there is none.
func Take() (*Block, error) {
	const blocks = (high - low) / blockSize
	for i, start := 0, rand.IntN(blocks); i < blocks; i++ {
		first := low + (start+i)%blocks*blockSize
		if guard, err := listen(first); err == nil {
			return &Block{first, guard}, nil
		}
	}
	return nil, fmt.Errorf("no free ports on 127.0.0.1 from %d to %d: other clusters have them all", low, high)
}

// Retake takes the block of an earlier run by its First, because members have ports in it. If it is not to be had, their ports may
// be free nevertheless; if not, the member that fails says which.
func Retake(first int) *Block {
	guard, err := listen(first)
	if err != nil {
		return &Block{first: first}
	}
	return &Block{first, guard}
}

// First names the block in Retake.
func (b *Block) First() int { return b.first }

// Choose finds a port of the block that is not among the taken ones, and that no other program uses just now.
func (b *Block) Choose(taken map[int]bool) (int, error) {
	for p := b.first + 1; p < b.first+blockSize; p++ {
		if taken[p] {
			continue
		}
		if ln, err := listen(p); err == nil {
			return p, ln.Close()
		}
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1 from %d to %d", b.first, b.first+blockSize-1)
}

// Release lets others have the block. It is the last call.
func (b *Block) Release() error {
	if b.guard == nil {
		return nil
	}
	return b.guard.Close()
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
