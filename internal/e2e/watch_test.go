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

// expireAll ends the sessions of all who are connected to a sandbox.
func expireAll(t *testing.T, box *zktest.Box) {
	t.Helper()
	for _, id := range sessions(t, box) {
		box.Expire(id)
	}
}

// watching starts a watch and returns once it is in place. Its errors come among its
// answers.
func watching(t *testing.T, server string, words ...string) *pipeline {
	t.Helper()
	p := openTogether(t, append([]string{"-server", server, "watch"}, words...)...)
	p.watches(t)
	return p
}

// watches waits until a watch is in place: one of many znodes is when they have been
// read, which is after its watch is set.
func (p *pipeline) watches(t *testing.T) {
	t.Helper()
	if got := p.next(t); !strings.HasPrefix(got, "watching ") {
		t.Fatal(got)
	}
}

// openTogether opens a pipeline whose errors come among its answers.
func openTogether(t *testing.T, args ...string) *pipeline {
	t.Helper()
	p := &pipeline{cmd: exec.Command("zksh", args...)}
	p.cmd.Env = homeEnv(t.TempDir())
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out, p.end, p.cmd.Stderr = bufio.NewReader(out), out, p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() }) // it has ended, or the test has failed
	return p
}

var watchCount = regexp.MustCompile(`\nzk_watch_count\t(\d+)\n`)

// watches is how many there are on a server; a persistent one counts twice.
func watches(t *testing.T, server string) int {
	t.Helper()
	n, err := strconv.Atoi(watchCount.FindStringSubmatch(zktest.Ask(t, server, "mntr"))[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// next reads one line of a watch.
func (p *pipeline) next(t *testing.T) string {
	t.Helper()
	late := time.AfterFunc(zktest.Patience, func() { _ = p.cmd.Process.Kill() }) // which ends the read below
	defer late.Stop()
	line, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// What has changed while nobody could be reached, or in between two sessions, is found
// by comparing.
func TestWatchGoesOn(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	client := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 30 * time.Second})
	testWatchGoesOn(t, box.Addr(), client, map[string]func(){"expired": func() { expireAll(t, box) }})
}

// The same on a real server, which is also stopped and started again.
func TestWatchGoesOnServer(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.Heap(128))
	client := zksession.Open(t, zkconn.Config{Servers: server.Addr(), Timeout: 30 * time.Second})
	testWatchGoesOn(t, server.Addr(), client, map[string]func(){"restarted": func() { server.Stop(); server.Restart() }})
}

func testWatchGoesOn(t *testing.T, server string, client *zkconn.Session, faults map[string]func()) {
	ctx := zktest.Within(t)
	// do tries again where the connection broke.
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
			p := watching(t, proxy.Addr(), slices.DeleteFunc([]string{flag, root}, func(w string) bool { return w == "" })...)
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
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			wantExit(t, p.cmd, 143)
		}
	}
}

// A command that is slower than what it is run for runs one at a time, and sees the last
// state in the end, of each znode.
func TestWatchFlood(t *testing.T) {
	t.Parallel()
	const changes = 10_000
	for _, nodes := range []int{1, 10} {
		box := zktest.Sandbox(t, sandbox.Options{})
		path := func(i int) string { return fmt.Sprintf("/f/n%d", i) }
		run := func(script string) {
			if got := play(t, box.Addr(), script, shell.Config{Window: 256}); got.status != 0 {
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
		p := watching(t, box.Addr(), append(words, "--", "sh", "-c", "cd "+dir+"; "+script)...)
		var flood strings.Builder
		for i := range changes {
			fmt.Fprintf(&flood, "set %s %d\n", path(i%nodes), i)
		}
		run(flood.String())
		last := map[string]string{}
		zktest.Eventually(t, "the last state is seen", func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, "seen")) // none yet
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
		if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
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

// However a watch is ended, its status tells, and its command does not outlive it.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	at(t, box.Addr(), "create", "/x")
	for sig, want := range signalStatuses {
		p := watching(t, box.Addr(), "/x")
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		wantExit(t, p.cmd, want)

		// sleep is a child of the command: the whole job ends.
		p = watching(t, box.Addr(), "/x", "--", "sh", "-c", "echo begun; sleep 1000; true")
		at(t, box.Addr(), "set", "/x", "new")
		p.next(t)
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(p.out); err != nil || strings.Count(string(rest), "\n") != 1 { // it ends when all who could write have
			t.Errorf("%s%v", rest, err)
		}
		wantExit(t, p.cmd, want)
	}

	// One that does not heed that is killed, and so is what it has started.
	deaf := watching(t, box.Addr(), "/x", "--", "sh", "-c", "trap '' TERM; echo begun; sleep 1000; true")
	at(t, box.Addr(), "set", "/x", "new")
	deaf.next(t)
	if err := deaf.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(deaf.out); err != nil || string(rest) != "terminated\n" {
		t.Errorf("%s%v", rest, err)
	}
	wantExit(t, deaf.cmd, 143)

	// The next line nobody reads.
	p := watching(t, box.Addr(), "/x")
	if err := p.end.Close(); err != nil {
		t.Fatal(err)
	}
	at(t, box.Addr(), "set", "/x", "newer")
	wantExit(t, p.cmd, 141)
	zktest.Eventually(t, "no watch is left", func() bool { return watches(t, box.Addr()) == 0 })
}

// The watches of watch are nobody else's: the script's own stay, its events are shown as
// such, and no other.
func TestWatchIsAnswered(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	at(t, box.Addr(), "create", "/x")
	at(t, box.Addr(), "create", "/own")
	p := openTogether(t, "-server", box.Addr(), "-o", "json")
	p.ask(t, "addWatch -m PERSISTENT /x", `{"done":"addWatch","path":"/x"}`)
	own := watches(t, box.Addr())
	for _, line := range []string{"watch -1 /x", "watch -1 -r /x", "watch -1 /x -- cat"} {
		if _, err := io.WriteString(p.in, line+"\n"); err != nil {
			t.Fatal(err)
		}
		p.watches(t)
		at(t, box.Addr(), "set", "/x", "new\n")
		var got []string
		next := func(answer string) {
			for !slices.Contains(got, answer) {
				got = append(got, p.next(t))
			}
		}
		next(`{"done":"watch","status":0}`)
		// The script's own event may come later than that of the other session: before the
		// answer to a line that asks the server behind it.
		if _, err := io.WriteString(p.in, "sync /own\n"); err != nil {
			t.Fatal(err)
		}
		next(`{"done":"sync","path":"/own"}`)
		const event = `{"event":"NodeDataChanged","state":"SyncConnected","path":"/x","time":"`
		isEvent := func(l string) bool { return strings.HasPrefix(l, event) }
		told := slices.ContainsFunc(got, func(l string) bool {
			return l == "new" || strings.HasPrefix(l, `{"event":"NodeDataChanged","path":"/x","version":`)
		})
		if len(got) != 4 || !told || !slices.ContainsFunc(got, isEvent) {
			t.Errorf("%s: %q", line, got)
		}
		zktest.Eventually(t, "its own is gone", func() bool { return watches(t, box.Addr()) == own })
	}
	p.in.Close()
	wantExit(t, p.cmd, 0)
}

// By hand a watch ends with Ctrl-C, the command with it, and the terminal is as it was.
func TestWatchByHand(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	at(t, box.Addr(), "create", "/x")
	r := openRich(t, box.Addr())
	change := func() { // once it is watched
		zktest.Eventually(t, "it watches", func() bool { return watches(t, box.Addr()) > 0 })
		at(t, box.Addr(), "set", "/x", "new")
	}
	gone := func() { // the one before, which goes with a session of its own
		zktest.Eventually(t, "its watch is gone", func() bool { return watches(t, box.Addr()) == 0 })
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

// The end of the script's own session does not end a watch; the line says so, as those
// behind it may rely on what is gone.
func TestExpiryInAWatch(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	at(t, box.Addr(), "create", "/x")
	p := openPipeline(t, "-server", box.Addr(), "-o", "json")
	p.ask(t, "create -e /mine", `{"created":"/mine"}`)
	if _, err := io.WriteString(p.in, "watch -1 /x\nget /x\n"); err != nil {
		t.Fatal(err)
	}
	zktest.Eventually(t, "it watches", func() bool { return watches(t, box.Addr()) > 0 })
	expire(t, box, owner(t, box.Addr(), "/mine"))
	at(t, box.Addr(), "set", "/x", "new")
	if got, want := p.next(t), `{"event":"NodeDataChanged","path":"/x","version":1,"size":3,"was":0,"time":"`; !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if got := p.next(t); !strings.HasPrefix(got, `{"error":"the session expired`) || !strings.Contains(got, `"code":"SessionExpired","command":"watch","line":2}`) {
		t.Error(got)
	}
	if got := p.next(t); got != `{"path":"/x","data":"new"}` {
		t.Error(got)
	}
	p.in.Close()
	wantExit(t, p.cmd, 69)
}
