package lockcmd

import (
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/commandtest"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// warningShell is a shell with a table of locks, on a terminal of the given width.
type warningShell struct {
	*testEnv
	t     *testing.T
	table *Table
}

func newWarningShell(t *testing.T, s *zkconn.Session, columns int) *warningShell {
	sh := &warningShell{newTestEnv(s, render.Text), t, New()}
	sh.Mode, sh.Columns = commands.Batch, columns
	return sh
}

// run runs a command of the table, which must succeed.
func (sh *warningShell) run(name string, args ...string) {
	sh.t.Helper()
	for _, c := range sh.table.Commands() {
		if c.Name == name {
			if err := commandtest.Run(zktest.Within(sh.t), c, &sh.Env, args...); err != nil {
				sh.t.Fatalf("%s: %v", name, err)
			}
		}
	}
}

// leave exits the shell and returns all notes that it printed.
func (sh *warningShell) leave() string {
	sh.t.Helper()
	if _, err := sh.table.Release(zktest.Within(sh.t)); err != nil {
		sh.t.Error(err)
	}
	return sh.Notes()
}

const sequenceBug = "can break locks: ZOOKEEPER-3249: the server can assign a sequence number twice; fixed in 3.6.0"

func TestBugWarnings(t *testing.T) {
	for as, want := range map[sandbox.Version]string{"3.4": "3.4.14", "3.5": "3.5.10", "3.6": "", "3.8": "", "3.9": "", "clickhouse": "", "raftkeeper": ""} {
		for _, k := range lockKinds {
			t.Run(fmt.Sprint(as, " ", k.command), func(t *testing.T) {
				b := newFixture(t, zktest.Sandbox(t, sandbox.Options{As: as}).Addr())
				sh := newWarningShell(t, b.Session, 80)
				sh.run(k.command, b.root)
				got := sh.leave()
				if want == "" && got != "" || want != "" && !strings.HasPrefix(got, "the server runs ZooKeeper "+want+", which "+sequenceBug) {
					t.Errorf("%q", got)
				}
			})
		}
	}
}

// A warning about bugs is printed once per session.
func TestBugWarningOncePerSession(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{As: "3.5"}).Addr()
	b := newFixture(t, addr)
	sh := newWarningShell(t, b.Session, 80)
	count := func() int { return strings.Count(sh.Notes(), sequenceBug) }
	sh.run("lock", b.root)
	zktest.Eventually(t, "the warning", func() bool { return count() == 1 })
	sh.run("lock", b.root+"/other")
	sh.table.warnings.probes.Wait()
	if _ = sh.table.notifier.finish(zktest.Within(t)); count() != 1 {
		t.Errorf("in the same session: %q", sh.Notes())
	}
	sh.Session = open(t, addr, usualTimeout)
	sh.run("lock", b.root+"/third")
	sh.leave()
	if count() != 2 {
		t.Errorf("in another session: %q", sh.Notes())
	}
}

// Without a terminal, a lock does not ask the server for its version.
func TestNoVersionWithoutTerminal(t *testing.T) {
	p := newVersionPort(t, zktest.Sandbox(t, sandbox.Options{As: "3.5"}).Addr())
	close(p.answer)
	b := newFixture(t, p.addr)
	sh := newWarningShell(t, b.Session, 0)
	sh.run("lock", b.root)
	if got := sh.leave(); got != "" || p.asked.Load() > 0 {
		t.Errorf("asked %d times; %q", p.asked.Load(), got)
	}
	sh = newWarningShell(t, b.Session, 80)
	sh.run("lock", b.root)
	if got := sh.leave(); !strings.Contains(got, sequenceBug) || p.asked.Load() != 1 {
		t.Errorf("on a terminal: asked %d times; %q", p.asked.Load(), got)
	}
}

// A lock does not wait for the answer of a server that is asked for its version. The warning
// comes later. In a slow attempt, the answer may come too late for the warning.
func TestLockDoesNotWaitForVersion(t *testing.T) {
	addr := zktest.Sandbox(t, sandbox.Options{As: "3.5"}).Addr()
	zktest.Eventually(t, "a lock before the answer, and the warning after it", func() bool {
		p := newVersionPort(t, addr)
		b := newFixture(t, p.addr)
		sh := newWarningShell(t, b.Session, 80)
		sh.run("lock", b.root)
		before := sh.Notes()
		close(p.answer)
		return before == "" && strings.Contains(sh.leave(), sequenceBug)
	})
}

// A server that never answers srvr delays neither the lock nor, by more than probeTimeout, the
// exit of the shell.
func TestVersionUnknown(t *testing.T) {
	p := newVersionPort(t, zktest.Sandbox(t, sandbox.Options{As: "3.5"}).Addr())
	b := newFixture(t, p.addr)
	sh := newWarningShell(t, b.Session, 80)
	sh.run("lock", b.root)
	zktest.Eventually(t, "a question", func() bool { return p.asked.Load() == 1 })
	sh.run("unlock", b.root)
	if got := sh.leave(); got != "" {
		t.Errorf("%q", got)
	}
	close(p.answer)
}

// versionPort forwards connections to a server, except for those that ask for its version.
type versionPort struct {
	addr   string
	asked  atomic.Int32  // number of questions for the version
	answer chan struct{} // close it to have the questions answered
}

func newVersionPort(t *testing.T, target string) *versionPort {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	zktest.Must(t, err)
	p := &versionPort{addr: ln.Addr().String(), answer: make(chan struct{})}
	var serving sync.WaitGroup
	var open sync.Map
	serving.Go(func() { // ends when the listener is closed
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Store(c, true)
			serving.Go(func() { p.serve(c, target) }) // ends when c is closed
		}
	})
	t.Cleanup(func() {
		ln.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		serving.Wait()
	})
	return p
}

func (p *versionPort) serve(c net.Conn, target string) {
	defer c.Close()
	first := make([]byte, 4)
	if _, err := io.ReadFull(c, first); err != nil {
		return
	}
	if string(first) == "srvr" {
		p.asked.Add(1)
		<-p.answer
	}
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer to.Close()
	if _, err := to.Write(first); err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { // ends when either connection is closed
		_, _ = io.Copy(c, to) // an error means that a connection is closed
		c.Close()
	})
	_, _ = io.Copy(to, c) // as above
	to.Close()
	back.Wait()
}

func TestSequenceWarning(t *testing.T) {
	name := func(number int) string { return fmt.Sprintf("/l/%s-lock-%010d", uuid, number) }
	for node, want := range map[string]string{
		name(0):                     "",
		name(highSequence):          "",
		name(highSequence + 1):      "lock /l: the sequence numbers of its znodes have reached 1900000001 of at most 2147483647. ",
		name(math.MaxInt32 - 1):     "lock /l: the sequence numbers of its znodes have reached 2147483646 of at most 2147483647. ",
		name(math.MaxInt32):         "lock /l: the sequence numbers of its znodes have reached their maximum, 2147483647. ",
		name(math.MinInt32):         "lock /l: the sequence numbers of its znodes have reached their maximum, 2147483647. ",
		"/l/" + hex32:               "", // without a number
		"/l/other-1900000001-thing": "",
	} {
		got := sequenceWarning("/l", node)
		if want == "" && got != "" || !strings.HasPrefix(got, want) || want != "" && !strings.HasSuffix(got, ": delete /l") {
			t.Errorf("%s: %q, want %q", node, got, want)
		}
	}
}

// The warning about sequence numbers is printed once per session and path, and needs no terminal.
func TestSequenceWarningOnce(t *testing.T) {
	box := zktest.Sandbox(t, sandbox.Options{})
	b := newFixture(t, box.Addr())
	b.persistent("/a", "")
	b.persistent("/b", "")
	sh := newWarningShell(t, b.Session, 0)
	for _, path := range []string{b.root + "/a", b.root + "/b"} {
		if !box.SetSequence(path, highSequence) {
			t.Fatal("no ", path)
		}
		for range 3 { // the first number is not too high yet
			sh.run("lock", path)
			sh.run("unlock", path)
		}
	}
	got := sh.leave()
	if strings.Count(got, "\n") != 1 || strings.Count(got, "lock "+b.root+"/a: ") != 1 || strings.Count(got, "lock "+b.root+"/b: ") != 1 {
		t.Errorf("%q", got)
	}
}

// The warning about the zxid is printed once per session, only on a terminal, and only for
// ensembles of ZooKeeper. The sandbox that acts as 3.4 looks like one, because it has no
// configuration.
func TestElectionWarning(t *testing.T) {
	for _, c := range []struct {
		as      sandbox.Version
		counter uint32
		columns int
		want    int
	}{
		{"3.4", highCounter, 80, 1},
		{"3.4", highCounter - 1<<16, 80, 0},
		{"3.4", highCounter, 0, 0},
		{"3.8", highCounter, 80, 0}, // standalone
		{"clickhouse", highCounter, 80, 0},
		{"raftkeeper", highCounter, 80, 0},
	} {
		box := zktest.Sandbox(t, sandbox.Options{As: c.as})
		b := newFixture(t, box.Addr())
		box.SetCounter(c.counter)
		sh := newWarningShell(t, b.Session, c.columns)
		for range 2 {
			sh.run("lock", b.root)
			sh.run("unlock", b.root)
		}
		got := sh.leave()
		if strings.Count(got, "the leader has used 94 % of its transaction ids (zxid 0x") != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
