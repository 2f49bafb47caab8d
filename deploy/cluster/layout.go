package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/splashdam/splashdam/shared/ports"
)

// layout is where everything listens. The ports between tiers are chosen at the first start and kept in
// local.json, because etcd members and log nodes are known to each other by address.
type layout struct {
	Coordinators int            `json:"coordinators"`
	Nodes        int            `json:"nodes"`
	Block        int            `json:"block"` // the first port of those that are its own, see ports.Block
	Ports        map[string]int `json:"ports"` // "node-1", "coordinator-1/etcd", ...

	block    *ports.Block
	gateways []string // host:port of each gateway in this run
}

// loadLayout reads <dir>/local.json, or begins it, adds what is missing and writes it back. The ports are its own until release.
func loadLayout(o Options) (*layout, error) {
	file := filepath.Join(o.Dir, "local.json")
	l := &layout{Coordinators: o.Coordinators, Ports: map[string]int{}}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, l)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not readable: %w", file, err)
	}
	if l.Coordinators != o.Coordinators {
		return nil, fmt.Errorf("%s was made with %d coordinators and can't be started with %d",
			o.Dir, l.Coordinators, o.Coordinators)
	}
	if l.Nodes > o.Nodes {
		return nil, fmt.Errorf("%s holds the data of %d nodes; start it with at least as many, not %d",
			o.Dir, l.Nodes, o.Nodes)
	}
	l.Nodes = o.Nodes
	if err := l.takePorts(o, file); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// takePorts takes the block and chooses the ports in it that are not chosen yet, and keeps them in the file.
func (l *layout) takePorts(o Options, file string) (err error) {
	if l.Block != 0 {
		l.block = ports.Retake(l.Block)
	} else if l.block, err = ports.Take(); err != nil {
		return err
	}
	l.Block = l.block.First()
	if err := l.choosePorts(o); err != nil {
		return err
	}
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(file, append(text, '\n'))
}

// release lets other clusters have the ports.
func (l *layout) release() error {
	if l.block == nil {
		return nil
	}
	return l.block.Release()
}

func (l *layout) choosePorts(o Options) error {
	var want []string
	for i := 1; i <= o.Coordinators; i++ {
		name := memberName(coordinatorKind, i)
		want = append(want, name+"/etcd", name+"/peer", name+"/nats", name+"/route")
	}
	for i := 1; i <= o.Nodes; i++ {
		want = append(want, memberName(nodeKind, i))
	}
	for i := 1; i <= o.Gateways && o.HTTP == ""; i++ {
		want = append(want, memberName(gatewayKind, i))
	}
	if o.Processes != nil { // metrics and profiles of each
		for kind, n := range map[string]int{coordinatorKind: o.Coordinators, nodeKind: o.Nodes, gatewayKind: o.Gateways} {
			for i := 1; i <= n; i++ {
				want = append(want, memberName(kind, i)+"/debug")
			}
		}
	}
	taken := map[int]bool{}
	for _, p := range l.Ports {
		taken[p] = true
	}
	for _, name := range want {
		if l.Ports[name] != 0 {
			continue
		}
		p, err := l.block.Choose(taken)
		if err != nil {
			return err
		}
		l.Ports[name], taken[p] = p, true
	}
	if o.HTTP == "" {
		for i := 1; i <= o.Gateways; i++ {
			l.gateways = append(l.gateways, l.addr(memberName(gatewayKind, i)))
		}
		return nil
	}
	var err error
	l.gateways, err = gatewayAddresses(o.HTTP, o.Gateways)
	return err
}

// addr is where a member listens for the other tiers.
func (l *layout) addr(name string) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Ports[name]))
}

// gatewayAddresses are first and the n-1 ports after it.
func gatewayAddresses(first string, n int) ([]string, error) {
	if first == "" {
		return nil, nil
	}
	host, text, err := net.SplitHostPort(first)
	if err != nil {
		return nil, fmt.Errorf("http: %q is not host:port", first)
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port+n-1 > 65535 {
		return nil, fmt.Errorf("http: %q needs a port from 1 to %d", first, 65536-n)
	}
	out := make([]string, n)
	for i := range out {
		out[i] = net.JoinHostPort(host, strconv.Itoa(port+i))
	}
	return out, nil
}

// checkFree says in plain words that an address is taken, before anything starts and fails with more.
func checkFree(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("http: %s is in use by another program; choose another address", addr)
	}
	if err != nil {
		return fmt.Errorf("http: can't listen on %s: %w", addr, err)
	}
	return ln.Close()
}

// replaceFile writes beside the file and renames, so that a crash leaves the old or the new one.
func replaceFile(name string, text []byte) error {
	next := name + ".new"
	if err := os.WriteFile(next, text, 0o644); err != nil {
		return err
	}
	return os.Rename(next, name)
}

// dirLock keeps a second cluster out of a data directory. It is a lock of the kernel, not a file with a
// process id: it goes with the process, however that ends (museum 44).
type dirLock struct{ file *os.File }

func lockDir(dir string) (*dirLock, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("the data directory %s is in use by another running cluster", dir), f.Close())
	}
	return &dirLock{f}, nil
}

func (l *dirLock) release() error { return l.file.Close() }
