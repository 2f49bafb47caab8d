package cluster

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestLayoutKeepsItsPorts(t *testing.T) {
	o := Options{Dir: t.TempDir(), Coordinators: 3, Nodes: 2, Gateways: 2}
	first, err := loadLayout(o)
	if err != nil {
		t.Fatal(err)
	}
	must(t, first.release())
	seen := map[int]bool{}
	for name, p := range first.Ports {
		if seen[p] {
			t.Errorf("%s has port %d, which another one has too", name, p)
		}
		seen[p] = true
	}
	if want := 3*4 + 2 + 2; len(seen) != want {
		t.Errorf("%d ports, want %d: four of each coordinator, one of each node and gateway", len(seen), want)
	}
	o.Nodes = 3
	second, err := loadLayout(o)
	if err != nil {
		t.Fatal(err)
	}
	defer second.release()
	for name, p := range first.Ports {
		if second.Ports[name] != p {
			t.Errorf("%s moved from port %d to %d", name, p, second.Ports[name])
		}
	}
	if second.Ports["node-3"] == 0 {
		t.Error("the third node has no port")
	}
}

// Clusters that run at the same time, or are begun at the same moment, never get a port of each other: not one that its member
// does not use yet either, or for a while.
func TestLayoutPortsAreItsOwn(t *testing.T) {
	const clusters = 12
	owner := map[int]int{}
	var all []*layout
	var mu sync.Mutex
	var work sync.WaitGroup
	for i := range clusters {
		work.Go(func() {
			l, err := loadLayout(Options{Dir: t.TempDir(), Coordinators: 3, Nodes: 4, Gateways: 3, Processes: &Processes{}})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, l)
			for name, p := range l.Ports {
				if other, taken := owner[p]; taken {
					t.Errorf("%s of cluster %d has port %d, which cluster %d has", name, i, p, other)
				}
				owner[p] = i
			}
		})
	}
	work.Wait()
	for _, l := range all {
		must(t, l.release())
	}
	if want := clusters * (3*4 + 4 + 3 + 10); len(owner) != want {
		t.Errorf("%d ports, want %d", len(owner), want)
	}
}

func TestLayoutRefusesWhatCannotBe(t *testing.T) {
	dir := t.TempDir()
	l, err := loadLayout(Options{Dir: dir, Coordinators: 1, Nodes: 3, Gateways: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.release()
	_, err = loadLayout(Options{Dir: dir, Coordinators: 3, Nodes: 3, Gateways: 1})
	if err == nil || !strings.Contains(err.Error(), "made with 1 coordinators") {
		t.Errorf("another number of coordinators: %v", err)
	}
	_, err = loadLayout(Options{Dir: dir, Coordinators: 1, Nodes: 2, Gateways: 1})
	if err == nil || !strings.Contains(err.Error(), "3 nodes") {
		t.Errorf("fewer nodes than there are data of: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "local.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = loadLayout(Options{Dir: dir, Coordinators: 1, Nodes: 3, Gateways: 1})
	if err == nil || !strings.Contains(err.Error(), "local.json") {
		t.Errorf("a damaged file: %v", err)
	}
}

func TestLayoutGatewayAddresses(t *testing.T) {
	got, err := gatewayAddresses("127.0.0.1:8080", 3)
	if want := []string{"127.0.0.1:8080", "127.0.0.1:8081", "127.0.0.1:8082"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"127.0.0.1", "127.0.0.1:0", "127.0.0.1:http", "127.0.0.1:65535", ":-1"} {
		if _, err := gatewayAddresses(bad, 2); err == nil || !strings.HasPrefix(err.Error(), "http: ") {
			t.Errorf("%q for two gateways: %v", bad, err)
		}
	}
}

func TestLayoutOptionsReportEverything(t *testing.T) {
	_, err := Start(t.Context(), Options{Coordinators: 2, Nodes: -1, Gateways: 99, HTTP: "here"})
	if err == nil {
		t.Fatal("started")
	}
	for _, want := range []string{"data directory", "coordinators: 2", "nodes: -1", "gateways: 99", "http: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %q in: %v", want, err)
		}
	}
}

func TestLayoutLocksItsDirectory(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second lock: %v", err)
	}
	if err := lock.release(); err != nil {
		t.Fatal(err)
	}
	// The file is still there, as after a crash, and does not matter.
	again, err := lockDir(dir)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	if err := again.release(); err != nil {
		t.Error(err)
	}
}

func TestLayoutSaysWhichPortIsTaken(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	addr := ln.Addr().String()
	_, err = Start(t.Context(), Options{Dir: t.TempDir(), HTTP: addr})
	if err == nil || !strings.Contains(err.Error(), addr+" is in use") {
		t.Errorf("got %v", err)
	}
}

func TestLayoutLogFileIsPutAside(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.log")
	l, err := OpenLog(name)
	if err != nil {
		t.Fatal(err)
	}
	line := []byte(strings.Repeat("x", 1<<20-1) + "\n")
	for range 40 { // 40 MiB: aside twice
		if _, err := l.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, p := range []string{name, name + ".1"} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if most := int64(2*maxLog + 2*len(line)); total > most {
		t.Errorf("%d bytes of logs, at most %d", total, most)
	}
}

// An address that others reach is refused before anything is opened, unless the caller says so.
func TestLayoutOpenAddressNeedsInsecure(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "data"), HTTP: "0.0.0.0:8080"}
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "insecure") {
		t.Errorf("started: %v", err)
	}
	if _, err := os.Stat(o.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
	o.fill()
	o.Insecure = true
	if err := o.validate(); err != nil {
		t.Error(err)
	}
}
