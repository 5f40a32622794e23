//go:build unix

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/shell"
)

// expireAll expires the sessions of all clients that are connected to a sandbox.
func expireAll(t *testing.T, box *zktest.Box) {
	t.Helper()
	for _, id := range sessionIDs(t, box) {
		box.Expire(id)
	}
}

// startWatch starts zksh watch and returns when the watch is set. Standard error goes to the
// same pipe as standard output.
func startWatch(t *testing.T, server string, words ...string) *pipeline {
	t.Helper()
	p := openTogether(t, append([]string{"-server", server, "watch"}, words...)...)
	p.waitForWatch(t)
	return p
}

// waitForWatch waits until zksh prints that it watches. For a subtree it prints that after it
// has read all znodes, which is after it has set the watch.
func (p *pipeline) waitForWatch(t *testing.T) {
	t.Helper()
	if got := p.next(t); !strings.HasPrefix(got, "watching ") {
		t.Fatal(got)
	}
}

// openTogether opens a pipeline whose standard error goes to the same pipe as its standard
// output.
func openTogether(t *testing.T, args ...string) *pipeline {
	t.Helper()
	p := &pipeline{cmd: exec.Command("zksh", args...)}
	p.cmd.Env = homeEnv(t.TempDir())
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	zktest.Must(t, err)
	p.out, p.end, p.cmd.Stderr = bufio.NewReader(out), out, p.cmd.Stdout
	zktest.Must(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // if the test has failed; else it has already ended
	return p
}

var watchCountPattern = regexp.MustCompile(`\nzk_watch_count\t(\d+)\n`)

// watchCountPattern returns the number of watches on a server. A persistent watch counts twice.
func watchCount(t *testing.T, server string) int {
	t.Helper()
	n, err := strconv.Atoi(watchCountPattern.FindStringSubmatch(zktest.Ask(t, server, "mntr"))[1])
	zktest.Must(t, err)
	return n
}

// next reads one line of output.
func (p *pipeline) next(t *testing.T) string {
	t.Helper()
	late := time.AfterFunc(zktest.Patience, func() { _ = p.cmd.Process.Kill() }) // unblocks the read below
	defer late.Stop()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// watch finds the changes that were made during a connection loss or between two sessions by
// comparing states.
func TestWatchContinues(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	client := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 30 * time.Second})
	testWatchContinues(t, box.Addr(), client, map[string]func(){"expired": func() { expireAll(t, box) }})
}

// watch also finds changes on a real server, which the test also restarts.
func TestWatchContinuesOnServer(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.Heap(128))
	client := zksession.Open(t, zkconn.Config{Servers: server.Addr(), Timeout: 30 * time.Second})
	testWatchContinues(t, server.Addr(), client, map[string]func(){"restarted": func() { server.Stop(); server.Restart() }})
}

func testWatchContinues(t *testing.T, server string, client *zkconn.Session, faults map[string]func()) {
	ctx := zktest.Within(t)
	// do retries until what succeeds, because a connection may break.
	do := func(what func() error) {
		zktest.Eventually(t, "done", func() bool { return what() == nil })
	}
	create := func(path, data string) {
		do(func() error {
			err := zkconn.Exec(ctx, client, zkconn.Create(path, []byte(data), zkconn.OpenACL(), zkconn.CreateMode{}))
			return err
		})
	}
	proxy := zktest.NewProxy(t, server)
	faults["cut"] = func() { proxy.Refuse(true); proxy.Cut() }
	for name, fault := range faults {
		for _, flag := range []string{"", "-r"} {
			root := "/" + name + flag
			create(root, "0")
			create(root+"/old", "1")
			create(root+"/kept", "22")
			create(root+"/same", "22")
			p := startWatch(t, proxy.Addr(), slices.DeleteFunc([]string{flag, root}, func(w string) bool { return w == "" })...)
			do(func() error { err := zkconn.Exec(ctx, client, zkconn.SetData(root, []byte("first"), -1)); return err })
			if got, want := p.next(t), "NodeDataChanged "+root+" version=1 size=5 was=1"; got != want {
				t.Fatalf("%s: %s, want %s", root, got, want)
			}
			fault()
			do(func() error { return zkconn.Exec(ctx, client, zkconn.Delete(root+"/old", -1)) })
			create(root+"/new", "333")
			do(func() error {
				err := zkconn.Exec(ctx, client, zkconn.SetData(root+"/kept", []byte("4444"), 0))
				return err
			})
			do(func() error { err := zkconn.Exec(ctx, client, zkconn.SetData(root, []byte("2"), 1)); return err })
			proxy.Refuse(false)
			want := []string{
				"NodeDataChanged " + root + " version=2 size=1 was=5", "NodeDataChanged " + root + "/kept version=1 size=4 was=2",
				"NodeCreated " + root + "/new version=0 size=3", "NodeDeleted " + root + "/old version=0 was=1",
			}
			if flag == "" {
				want = want[:1]
			}
			var got []string
			for range want {
				got = append(got, p.next(t))
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", root, got, want)
			}
			zktest.Must(t, p.cmd.Process.Signal(syscall.SIGTERM))
			wantExit(t, p.cmd, 143)
		}
	}
}

// If the command of a watch is slower than the changes, it runs once at a time and sees the last
// state of each znode in the end.
func TestWatchFlood(t *testing.T) {
	t.Parallel()
	const changes = 10_000
	for _, nodes := range []int{1, 10} {
		box := zktest.Sandbox(t, sandbox.Options{})
		path := func(i int) string { return fmt.Sprintf("/f/n%d", i) }
		run := func(script string) {
			if got := runScript(t, box.Addr(), script, shell.Config{Window: 256}); got.status != 0 {
				t.Fatal(got)
			}
		}
		script := "create /f\n"
		for i := range nodes {
			script += "create " + path(i) + "\n"
		}
		run(script)
		dir := t.TempDir()
		script = `mkdir busy || echo $ZK_PATH >> overlap; echo $ZK_PATH $ZK_VERSION $(cat) >> seen; sleep 0.02; rmdir busy`
		words := []string{path(0)}
		if nodes > 1 {
			words = []string{"-r", "/f"}
		}
		p := startWatch(t, box.Addr(), append(words, "--", "sh", "-c", "cd "+dir+"; "+script)...)
		var flood strings.Builder
		for i := range changes {
			fmt.Fprintf(&flood, "set %s %d\n", path(i%nodes), i)
		}
		run(flood.String())
		last := map[string]string{}
		zktest.Eventually(t, "the last state is seen", func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, "seen")) // the file may not exist yet
			for line := range strings.Lines(string(text)) {
				words := strings.Fields(line)
				last[words[0]] = strings.Join(words[1:], " ")
			}
			for i := range nodes {
				if last[path(i)] != fmt.Sprintf("%d %d", changes/nodes, changes-nodes+i) {
					return false
				}
			}
			return true
		})
		zktest.Must(t, p.cmd.Process.Signal(syscall.SIGINT))
		wantExit(t, p.cmd, 130)
		seen := readFile(t, filepath.Join(dir, "seen"))
		if _, err := os.Stat(filepath.Join(dir, "overlap")); err == nil {
			t.Error("two ran at once")
		}
		versions := map[string]int{}
		for line := range strings.Lines(seen) {
			words := strings.Fields(line)
			version, err := strconv.Atoi(words[1])
			if err != nil || version <= versions[words[0]] {
				t.Errorf("out of order: %q behind %d", line, versions[words[0]])
			}
			versions[words[0]] = version
		}
		if n := strings.Count(seen, "\n"); n > changes/10 {
			t.Errorf("%d runs: nothing has become one", n)
		}
	}
}

// However a watch ends, its exit status shows the reason, and its command does not outlive it.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	runAt(t, box.Addr(), "create", "/x")
	for sig, want := range signalStatuses {
		p := startWatch(t, box.Addr(), "/x")
		zktest.Must(t, p.cmd.Process.Signal(sig))
		wantExit(t, p.cmd, want)

		// sleep is a child of the command: zksh terminates the complete process group.
		p = startWatch(t, box.Addr(), "/x", "--", "sh", "-c", "echo begun; sleep 1000; true")
		runAt(t, box.Addr(), "set", "/x", "new")
		p.next(t)
		zktest.Must(t, p.cmd.Process.Signal(sig))
		if rest, err := io.ReadAll(p.out); err != nil || strings.Count(string(rest), "\n") != 1 { // ends when all processes with the pipe open have
			t.Errorf("%s%v", rest, err)
		}
		wantExit(t, p.cmd, want)
	}

	// zksh kills a command that ignores TERM, together with its children.
	stubborn := startWatch(t, box.Addr(), "/x", "--", "sh", "-c", "trap '' TERM; echo begun; sleep 1000; true")
	runAt(t, box.Addr(), "set", "/x", "new")
	stubborn.next(t)
	zktest.Must(t, stubborn.cmd.Process.Signal(syscall.SIGTERM))
	if rest, err := io.ReadAll(stubborn.out); err != nil || string(rest) != "terminated\n" {
		t.Errorf("%s%v", rest, err)
	}
	wantExit(t, stubborn.cmd, 143)

	// If nobody reads the output, zksh ends at the next line.
	p := startWatch(t, box.Addr(), "/x")
	zktest.Must(t, p.end.Close())
	runAt(t, box.Addr(), "set", "/x", "newer")
	wantExit(t, p.cmd, 141)
	zktest.Eventually(t, "no watch is left", func() bool { return watchCount(t, box.Addr()) == 0 })
}

// watch does not interfere with the script's own watches: those stay, and their events are
// printed as usual.
func TestWatchIsAnswered(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	runAt(t, box.Addr(), "create", "/x")
	runAt(t, box.Addr(), "create", "/own")
	p := openTogether(t, "-server", box.Addr(), "-o", "json")
	p.ask(t, "addWatch -m PERSISTENT /x", `{"done":"addWatch","path":"/x"}`)
	own := watchCount(t, box.Addr())
	for _, line := range []string{"watch -1 /x", "watch -1 -r /x", "watch -1 /x -- cat"} {
		if _, err := io.WriteString(p.in, line+"\n"); err != nil {
			t.Fatal(err)
		}
		p.waitForWatch(t)
		runAt(t, box.Addr(), "set", "/x", "new\n")
		var got []string
		next := func(answer string) {
			for !slices.Contains(got, answer) {
				got = append(got, p.next(t))
			}
		}
		next(`{"done":"watch","status":0}`)
		// The script's own event may arrive later than that of watch's session, but it arrives
		// before the answer to a later request on the script's connection.
		if _, err := io.WriteString(p.in, "sync /own\n"); err != nil {
			t.Fatal(err)
		}
		next(`{"done":"sync","path":"/own"}`)
		const event = `{"event":"NodeDataChanged","state":"SyncConnected","path":"/x","time":"`
		isEvent := func(l string) bool { return strings.HasPrefix(l, event) }
		hasAnswer := slices.ContainsFunc(got, func(l string) bool {
			return l == "new" || strings.HasPrefix(l, `{"event":"NodeDataChanged","path":"/x","version":`)
		})
		if len(got) != 4 || !hasAnswer || !slices.ContainsFunc(got, isEvent) {
			t.Errorf("%s: %q", line, got)
		}
		zktest.Eventually(t, "its own is gone", func() bool { return watchCount(t, box.Addr()) == own })
	}
	p.in.Close()
	wantExit(t, p.cmd, 0)
}

// Interactively, Ctrl-C ends a watch and its command, and the terminal is restored.
func TestWatchInteractive(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	runAt(t, box.Addr(), "create", "/x")
	r := openRich(t, box.Addr())
	change := func() { // changes /x once it is watched
		zktest.Eventually(t, "it watches", func() bool { return watchCount(t, box.Addr()) > 0 })
		runAt(t, box.Addr(), "set", "/x", "new")
	}
	gone := func() { // waits until the previous watch, which has a session of its own, is gone
		zktest.Eventually(t, "its watch is gone", func() bool { return watchCount(t, box.Addr()) == 0 })
	}
	r.typeIn("watch /x\r")
	change()
	r.expect(`NodeDataChanged /x version=1 size=3 was=0`)
	r.typeIn("\x03")
	r.expect(`interrupted`)
	r.expect(`\) 1\] `)
	gone()
	r.typeIn("watch /x -- sh -c 'stty -echo -icanon </dev/tty; echo run $ZK_VERSION; sleep 1000'\r")
	change()
	r.expect(`run 2\r\n`)
	r.typeIn("\x03")
	r.expect(`interrupted`)
	r.expect(`\) 2\] `)
	gone()
	r.typeIn("watch -1 /x -- sh -c 'stty -a </dev/tty; cat; echo , shown'\r")
	change()
	r.expect(`[^-]icanon[\s\S]*[^-]echo\b[\s\S]*new, shown\r\n`)
	r.expect(`\) 3\] `)
	r.typeIn("quit\r")
	r.wantRestored(0)
}

// The expiry of the script's own session does not end a watch. The line reports the expiry,
// because later lines may rely on the session.
func TestExpiryInAWatch(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	runAt(t, box.Addr(), "create", "/x")
	p := openPipeline(t, "-server", box.Addr(), "-o", "json")
	p.ask(t, "create -e /mine", `{"created":"/mine"}`)
	if _, err := io.WriteString(p.in, "watch -1 /x\nget /x\n"); err != nil {
		t.Fatal(err)
	}
	zktest.Eventually(t, "it watches", func() bool { return watchCount(t, box.Addr()) > 0 })
	expireSession(t, box, owner(t, box.Addr(), "/mine"))
	runAt(t, box.Addr(), "set", "/x", "new")
	if got, want := p.next(t), `{"event":"NodeDataChanged","path":"/x","version":1,"size":3,"was":0,"time":"`; !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if got := p.next(t); !strings.HasPrefix(got, `{"error":"the session expired`) || !strings.Contains(got, `"code":"SessionExpired","status":69,"command":"watch","line":2}`) {
		t.Error(got)
	}
	if got := p.next(t); got != `{"path":"/x","data":"new"}` {
		t.Error(got)
	}
	p.in.Close()
	wantExit(t, p.cmd, 69)
}
