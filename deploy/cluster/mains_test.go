package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMains builds the three programs and runs them from flags and environment only.
func TestMains(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+"/", "./coordinator/cmd/coordinator", "./lognode/cmd/lognode", "./gateway/cmd/gateway")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("find each other", func(t *testing.T) { mainsOfTheTiers(t, bin) })
	t.Run("refuse bad flags", func(t *testing.T) { mainsRefuseBadFlags(t, bin) })
	t.Run("take what the docs say", func(t *testing.T) { mainsTakeTheDocs(t, bin) })
}

// mainsOfTheTiers runs them as on three machines: they find each other, serve, and end in order.
func mainsOfTheTiers(t *testing.T, bin string) {
	o := Options{Dir: t.TempDir(), Coordinators: 1, Nodes: 1, Gateways: 1}
	l, err := loadLayout(o)
	must(t, err)
	t.Cleanup(func() { must(t, l.release()) })
	etcd := l.addr("coordinator-1/etcd")
	run := func(name string, args ...string) {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Env = append(os.Environ(), "SPLASHDAM_ETCD="+etcd)
		cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
		cmd.SysProcAttr = childAttributes()
		cmd.SysProcAttr.Setpgid = false
		must(t, cmd.Start())
		t.Cleanup(func() {
			must(t, cmd.Process.Signal(syscall.SIGTERM))
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s ended with %v", name, err)
			}
		})
	}
	run("coordinator", "--dir", filepath.Join(o.Dir, "c"), "--etcd-client", etcd, "--etcd-peer", l.addr("coordinator-1/peer"),
		"--nats", l.addr("coordinator-1/nats"), "--nats-route", l.addr("coordinator-1/route"))
	run("lognode", "--dir", filepath.Join(o.Dir, "n"), "--listen", l.addr("node-1"), "--ballast-bytes", "0", "--log-level", "warn")
	run("gateway", "--listen", l.gateways[0])

	c := &Cluster{layout: l, gateways: []*Member{{name: "gateway-1"}}, failed: make(chan error)}
	must(t, c.awaitReady(ctxFor(t), c.URLs()[0]))
	one := via(t, c, 1)
	one.publish("topic", "hello")
	one.settle("ack", one.receiveN("topic", "g", 1, ""), "")
	again := func(name string, args ...string) {
		out, err := exec.CommandContext(ctxFor(t), filepath.Join(bin, name), append(args, "--etcd", etcd, "--log-level", "error")...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "the name is taken") {
			t.Errorf("a second %s of one name: %v, and it says %s", name, err, out)
		}
	}
	again("lognode", "--dir", filepath.Join(o.Dir, "n2"), "--listen", "127.0.0.1:0", "--ballast-bytes", "0")
	again("gateway", "--listen", "127.0.0.1:0")
	one.publish("topic", "still here")
	one.settle("ack", one.receiveN("topic", "g", 1, ""), "")
}

// A main that is given nonsense says so before it opens anything.
func mainsRefuseBadFlags(t *testing.T, bin string) {
	for name, bad := range map[string][]string{
		"coordinator": {"--nats", "0.0.0.0:4222", "--name", ".."},
		"lognode":     {"--listen", "0.0.0.0:7070", "--name", ".."},
		"gateway":     {"--listen", "0.0.0.0:8080", "--name", ".."},
	} {
		run := exec.Command(filepath.Join(bin, name), bad...)
		run.Dir = t.TempDir()
		out, err := run.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "name") || !strings.Contains(string(out), "insecure") {
			t.Errorf("%s %q: error %v, and it says %s; both mistakes are wanted", name, bad, err, out)
		}
		if left, err := os.ReadDir(run.Dir); err != nil || len(left) > 0 {
			t.Errorf("%s left %v behind, %v", name, left, err)
		}
	}
}

// mainsTakeTheDocs runs the commands for three machines in docs/OPERATIONS.md, each with a name that it refuses in place of
// its own: that is all that it has against them.
func mainsTakeTheDocs(t *testing.T, bin string) {
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	must(t, err)
	_, block, _ := strings.Cut(string(text), "```sh\nN=1")
	block, _, found := strings.Cut(block, "```\n")
	if !found {
		t.Fatal("the docs have no commands for three machines")
	}
	script := ""
	for _, name := range []string{"coordinator", "lognode", "gateway"} {
		script += name + `() { echo "-- ` + name + `"; "` + filepath.Join(bin, name) + `" "$@" --name ..; }` + "\n"
	}
	run := exec.Command("bash", "-c", script+"N=1"+block)
	run.Dir = t.TempDir()
	out, _ := run.CombinedOutput() // the last one fails, as all do
	for i, said := range strings.Split(string(out), "-- ")[1:] {
		name, complaint, _ := strings.Cut(said, "\n")
		complaint = strings.Replace(complaint, "\npeers: this coordinator (\"..\") is not in the list", "", 1) // it follows from the name
		if i >= 3 || !strings.HasPrefix(complaint, "error: name: ") || strings.Count(complaint, "\n") != 1 {
			t.Errorf("%s: %s", name, complaint)
		}
	}
	if n := strings.Count(string(out), "-- "); n != 3 {
		t.Errorf("%d programs were run, want 3: %s", n, out)
	}
}
