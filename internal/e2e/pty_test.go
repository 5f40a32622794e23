//go:build unix

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

func TestPromptAndQuit(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + newChroot(t)
	c := openConsole(t, "-server", server)
	c.expect(`^Connecting to ` + regexp.QuoteMeta(server) + `\n`)
	c.expect(`^Welcome to ZooKeeper!`)
	c.expect(connected)
	if prompt := "[zk: " + server + "(CONNECTED) 0] "; !strings.HasSuffix(c.shown(), prompt) {
		t.Errorf("the prompt is not %q", prompt)
	}
	c.run("create /a data", `^Created /a\n`)
	c.run("get /a", `^data\n`)
	c.run("", "") // an empty line does not count
	c.typeIn("# nor does a comment\r")
	c.expect(`\(CONNECTED\) 2\] `)
	c.run("get /none", `^Node does not exist: /none\n`)
	c.run("close", `^WatchedEvent state:Closed type:None path:null\n`)
	c.typeIn("ls /\r")
	c.expect(`^Not connected\n`)
	c.expect(`\(CLOSED\) 5\] `)
	c.run("connect", `^WatchedEvent state:SyncConnected type:None path:null\n`)
	c.typeIn("ls /\r")
	c.expect(`^\[a\]\n`)
	c.expect(`\(CONNECTED\) 7\] `)
	c.typeIn("quit\r")
	c.expect(`^WatchedEvent state:Closed type:None path:null\n`)
	c.wantStatus(0)
}

func TestCtrlDLeavesWithTheLastStatus(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + newChroot(t)
	for line, want := range map[string]int{"ls /": 0, "get /none": 1, "get": 2, "bogus": 127} {
		c := openConsole(t, "-server", server)
		c.expect(connected)
		c.run("bogus", "unknown command")
		c.run(line, `\n`)
		c.typeIn("\x04")
		c.wantStatus(want)
	}
}

// zksh reports unasked why it reaches no server, once for each connection loss. It does not
// repeat the report after a line that failed with it.
func TestUnreachableServerIsReported(t *testing.T) {
	t.Parallel()
	p := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
	p.Refuse(true)
	c := openConsole(t, "-server", p.Addr())
	why := `^cannot connect: ` + regexp.QuoteMeta(p.Addr()) + `: .*; zksh keeps trying\n`
	c.expect(why)
	c.run("ls /", `^cannot connect: .*[^n]\n`)
	p.Refuse(false)
	c.expect(connected)
	p.Refuse(true)
	p.Cut()
	c.expect(`^WatchedEvent state:Disconnected type:None path:null\n`)
	c.expect(why)
	p.Refuse(false)
	c.expect(connected)
	c.run("connect "+zktest.Refused(t), `^cannot connect: .*: connection refused\n`)
	c.typeIn("\x04")
	c.wantStatus(69)
	if n := strings.Count(c.shown(), "keeps trying"); n != 2 {
		t.Errorf("it was told %d times", n)
	}
}

// Each event is printed on a line of its own, followed by the prompt again, even while a line is
// being typed.
func TestEventsWhileIdle(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + newChroot(t)
	c := openConsole(t, "-server", server)
	c.expect(connected)
	c.run("create /a", `^Created /a\n`)
	c.run("addWatch -m PERSISTENT /a", `\n`)
	runAt(t, server, "set", "/a", "x")
	got := c.expect(`\(CONNECTED\) 2\] `)
	if want := "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:NodeDataChanged path:/a\n[zk: "; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
	c.typeIn("get ")
	c.expect("get ") // the echo
	runAt(t, server, "set", "/a", "y")
	c.expect(`^WatchedEvent .*path:/a\n`)
	c.expect(`\(CONNECTED\) 2\] `)
	c.run("/a", `^y\n`)
	c.run("printwatches off", `\n`)
	runAt(t, server, "set", "/a", "z")
	if got := c.run("get /a", `^z\n`); strings.Contains(got, "WATCHER") {
		t.Errorf("an event in %q", got)
	}
}

func TestCtrlC(t *testing.T) {
	t.Parallel()
	chroot := newChroot(t)
	p := zktest.NewProxy(t, zktest.Shared(t).Addr())
	c := openConsole(t, "-server", p.Addr()+chroot)
	c.expect(connected)

	// At the prompt, Ctrl-C clears the line.
	c.typeIn("create /never")
	c.expect("create /never")
	c.typeIn("\x03")
	c.expect(`\n\[zk: \S+\(CONNECTED\) 0\] `)
	c.run("ls /", `^\[\]\n`)

	// Ctrl-C ends a command that hangs, and nothing else. These two commands print something
	// before they ask the server.
	p.Hold(true)
	c.typeIn("ls2 /\r")
	c.expect(`has been deprecated`)
	c.typeIn("\x03")
	c.expect(`interrupted( before .*)?\n`) // the terminal echoes ^C before it
	c.expect(anyPrompt)
	c.typeIn("delete /none 0\r")
	c.expect(`has been deprecated`)
	c.typeIn("\x03")
	c.expect(`(effect|interrupted)\n`) // interrupted while it reads the data to save for undo
	c.expect(anyPrompt)
	// Ctrl-\ ends a command too.
	c.typeIn("ls2 /\r")
	c.expect(`has been deprecated`)
	c.typeIn("\x1c")
	c.expect(`interrupted( by Ctrl-\\| before .*)\n`)
	c.expect(anyPrompt)
	p.Hold(false)
	c.run("create /later", `^Created /later\n`)
	c.run("ls /", `^\[later\]\n`)
	c.typeIn("\x04")
	c.wantStatus(0)
}

// redo shows the line before it runs it, because the line may write.
func TestRedoShowsTheLine(t *testing.T) {
	t.Parallel()
	c := openConsole(t, "-server", zktest.Shared(t).Addr()+newChroot(t))
	c.expect(connected)
	c.run("create -s /n-", `^Created /n-0000000000\n`)
	c.run("redo 0", `^create -s /n-\nCreated /n-0000000001\n`)
	c.typeIn("\x04")
	c.wantStatus(0)
}

// Arguments of zksh cannot send control sequences to the terminal when an error quotes them.
func TestEscapesInOptions(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--\x1b]0;x\a"}, {"-f", "/nope\x1b[2J"}, {"-server", "h:\x1b[2J", "ls"}} {
		c := openConsole(t, args...)
		c.wantStatus(map[bool]int{true: 1, false: 2}[args[0] == "-f"])
		if text := c.shown(); strings.ContainsAny(text, "\x1b\a") || !strings.Contains(text, `\x1b`) {
			t.Errorf("%q: %q", args, text)
		}
	}
}

// Ctrl-C also ends a deletion whose answers do not arrive.
func TestCtrlCWhileDeleting(t *testing.T) {
	t.Parallel()
	chroot := newChroot(t)
	p := zktest.NewProxy(t, zktest.Shared(t).Addr())
	createTree(t, zktest.Shared(t).Addr()+chroot, 3000)
	c := openConsole(t, "-server", p.Addr()+chroot)
	c.expect(connected)
	client := zksession.Open(t, zkconn.Config{Servers: zktest.Shared(t).Addr() + chroot, Timeout: zktest.Patience})
	p.Delay(200 * time.Millisecond)
	c.typeIn("deleteall /tree -b 10 -y\r")
	zktest.Eventually(t, "some are deleted", func() bool {
		st, err := zkconn.Do(zktest.Within(t), client, zkconn.Exists("/tree"))
		return err == nil && st.NumChildren < 3000
	})
	c.typeIn("\x03")
	c.expect(`deleted \d+ (of 3001 znodes of /tree|znodes of /tree; the subtree contains more znodes): interrupted( while waiting .*)?\n`)
	c.expect(anyPrompt)
	p.Delay(0)
	p.Hold(true)
	c.typeIn("rmr -y /tree\r")
	c.expect(`has been deprecated`)
	c.typeIn("\x03")
	c.expect(`interrupted`)
	c.expect(anyPrompt)
	p.Hold(false)
	c.run("deleteall -y /tree", `\n`)
	c.run("ls /", `^\[\]\n`)
}

// createTree creates /tree with n children.
func createTree(t *testing.T, server string, n int) {
	t.Helper()
	client := zksession.Open(t, zkconn.Config{Servers: server, Timeout: zktest.Patience})
	all := []zkconn.Change{zkconn.Creation("/tree", nil, zkconn.OpenACL(), zkconn.CreateMode{})}
	for i := range n {
		all = append(all, zkconn.Creation(fmt.Sprintf("/tree/n%010d", i), nil, zkconn.OpenACL(), zkconn.CreateMode{}))
	}
	for some := range slices.Chunk(all, 1000) {
		if _, err := client.Multi(zktest.Within(t), some); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLossAndExpiryInteractive(t *testing.T) {
	t.Parallel()
	chroot := newChroot(t)
	direct := zktest.Shared(t).Addr() + chroot
	p := zktest.NewProxy(t, zktest.Shared(t).Addr())
	c := openConsole(t, "-server", p.Addr()+chroot, "-timeout", "12000")
	c.expect(connected)
	c.run("create -e /mine", `^Created /mine\n`)

	// After a short connection loss, the session continues.
	p.Refuse(true)
	p.Cut()
	c.expect(`^WatchedEvent state:Disconnected type:None path:null\n`)
	c.expect(`\(CONNECTING\) 1\] `)
	p.Refuse(false)
	c.expect(`^WatchedEvent state:SyncConnected type:None path:null\n`)
	c.expect(`\(CONNECTED\) 1\] `)
	c.run("getEphemerals", `^\[/mine\]\n`)

	// After a long one, the shell reports the expiry and the deleted znodes, and continues.
	p.Refuse(true)
	p.Cut()
	c.expect(`^WatchedEvent state:Disconnected type:None path:null\n`) // otherwise the next request may be sent before the disconnect
	c.run("ls /", `cannot connect: `+regexp.QuoteMeta(p.Addr())+`: connection refused\n`)
	zktest.Eventually(t, "the session expires", func() bool { return runAt(t, direct, "ls", "/") == "[]\n" })
	p.Refuse(false)
	got := c.expect(`the session expired[^\n]*\n`)
	if !strings.Contains(got, "WatchedEvent state:Expired type:None path:null\n") || !strings.Contains(got, " /mine are gone;") {
		t.Errorf("got %q", got)
	}
	c.expect(connected)
	c.run("create -e /mine", `^Created /mine\n`)
	c.typeIn("\x04")
	c.wantStatus(0)
}

// A znode's bytes cannot send control sequences to the terminal, neither on standard output nor
// on standard error.
func TestEscapesOnATerminal(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + newChroot(t)
	c := openConsole(t, "-server", server)
	c.expect(connected)
	c.run(`create /esc $'\x1b[2J\xff\u202e\x07\ttab\nline'`, `^Created /esc\n`)
	c.run("get /esc", "^"+regexp.QuoteMeta(`\x1b[2J\xff\u202e\x07`)+"\ttab\nline\n")
	c.run(`get $'/\x1b[2J'`, regexp.QuoteMeta(`Invalid path string "/\x1b[2J" caused by invalid character @1`))
	c.run(`$'\x1b[2J'`, `unknown command`)
	c.run(`setAcl /esc $'world:\x1b[2J:q'`, `Unknown perm type`)
	c.run(`create /esc2 "" $'world:anyone:cdrwa,digest:\x1b[2J:x:r'`, `^Created /esc2\n`)
	c.run("getAcl /esc2", `^'digest,'\\x1b\[2J:x\n`)
	if at := strings.IndexByte(c.shown(), 0x1b); at >= 0 {
		t.Errorf("an escape character reached the terminal: %q", c.shown()[at:])
	}
}

// SIGTERM and SIGHUP end an interactive shell and its session.
func TestSignalEndsInteractiveShell(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr() + newChroot(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		c := openConsole(t, "-server", server, "-q")
		if got := c.expect(connected); strings.Contains(got, "Welcome") {
			t.Errorf("-q shows %q", got)
		}
		c.run("create -e /mine", `^Created /mine\n`)
		zktest.Must(t, c.cmd.Process.Signal(sig))
		c.wantStatus(143)
		zktest.Eventually(t, "nothing is left behind", func() bool { return runAt(t, server, "ls", "/") == "[]\n" })
	}
}

// wantPrivate fails the test unless the file exists and only its owner has access.
func wantPrivate(t *testing.T, file string) {
	t.Helper()
	if info, err := os.Stat(file); err != nil {
		t.Error(err)
	} else if info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%s has mode %v", file, info.Mode())
	}
}
