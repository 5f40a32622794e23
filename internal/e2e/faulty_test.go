//go:build unix

package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell"
)

var everyFault = flag.Bool("faults", false, "TestFaultyServers runs every command against each faulty server in each way, not only a sample; set by make full")

// faultyServers lists modes of zktest.Faulty. If cut is set, all connections are cut again and
// again. If fail is set, no write succeeds.
var faultyServers = []struct {
	mode      string
	cut, fail bool
}{
	{mode: "newid", cut: true}, {mode: "newidkeep", cut: true}, {mode: "expired", cut: true},
	{mode: "clickhouse"}, {mode: "clickhouse", cut: true}, {mode: "raftkeeper"}, {mode: "raftkeeper", cut: true},
	{mode: "leaderless", fail: true}, {mode: "moved"},
	{mode: "hangop:16,17,18,19,21,22,103,104,106,107"}, {mode: "hangop:14"}, {mode: "hangop:101,105", cut: true}, {mode: "ignore:22,104,107"},
	{mode: "code:-4", fail: true}, {mode: "code:-6", fail: true}, {mode: "code:-112", fail: true}, {mode: "code:-118", fail: true},
	{mode: "silent", fail: true}, {mode: "pings", fail: true},
}

// boundedLines lists, by command, lines that end within the time limit of a test. Commands
// without an entry use succeedingLines.
var boundedLines = map[string][]string{
	"lock": {"lock -w 2s /locks/a"}, "wlock": {"wlock -w 2s /locks/w"}, "rlock": {"rlock -w 2s /locks/r"}, "wait": {"wait -w 2s /app"},
	"unlock": {"lock -w 2s /locks/backup", "unlock /locks/backup"}, "watch": {"watch /app"}, "revoke": {"revoke /locks/backup"},
	"reconfig": {"reconfig -remove 3"}, "undo": {"undo -l"}, "import": {"import -R /dev/null"}, "log": {"log /dev/null"},
	"edit": {"edit /app/config"}, "sandbox": {"sandbox pause"}, "tutorial": {"help tutorial"},
}

// harmless lists commands that can write, but do not write in these tests.
var harmless = []string{"begin", "abort", "check", "commit", "lockdemo", "undo", "find", "source", "redo", "export"}

// Whatever a server does, every command ends without a panic and does not report success for a
// change that was not made.
func TestFaultyServers(t *testing.T) {
	t.Parallel()
	var running sync.WaitGroup
	places := make(chan struct{}, 12)
	nth := 0
	for _, server := range faultyServers {
		for _, c := range registry().All() {
			lines := boundedLines[c.Name]
			if lines == nil {
				lines = succeedingLines[c.Name]
			}
			if lines == nil {
				lines = []string{c.Examples[0]}
			}
			for _, way := range []string{"one-shot", "pipe", "terminal"} {
				if nth++; !*everyFault && nth%61 != 0 || c.Name == "quit" && way == "terminal" {
					continue
				}
				name := fmt.Sprintf("%s, cut %v: %s: %q", server.mode, server.cut, way, lines)
				box := zktest.Faulty(t, server.mode)
				run := faultyRun{t: t, name: name, box: box, c: c, lines: lines, fail: server.fail, cut: server.cut, home: t.TempDir()}
				places <- struct{}{}
				running.Go(func() {
					defer func() { <-places }()
					defer box.Close()
					run.do(way)
				})
			}
		}
	}
	running.Wait()
}

// A faultyRun is one run of a command against a faulty server.
type faultyRun struct {
	t         *testing.T
	name      string
	box       *zktest.Box
	c         *commands.Command
	lines     []string
	cut, fail bool
	home      string
	prepared  bool // whether the znodes that the lines use exist
}

// limit is far longer than any of the lines needs with the session timeout of these runs.
const limit = 60 * time.Second

func (r *faultyRun) do(way string) {
	r.prepare()
	args := []string{"-server", r.box.Addr(), "-timeout", "3000"}
	if way == "one-shot" && len(r.lines) == 1 {
		args = append(args, strings.Fields(strings.NewReplacer(`"`, "", "'", "").Replace(r.lines[0]))...)
	} else if way == "one-shot" {
		for _, line := range r.lines {
			args = append(args, "-c", line)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "zksh", args...)
	cmd.Env = append(homeEnv(r.home), "EDITOR=true", "VISUAL=true")
	cmd.Dir = r.home
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if way == "pipe" {
		cmd.Stdin = strings.NewReader(strings.Join(r.lines, "\n") + "\n")
	}
	stop := r.cutRepeatedly(ctx)
	defer stop()
	var err error
	if way == "terminal" {
		err = r.onTerminal(ctx, cmd, &out)
	} else if err = cmd.Start(); err == nil {
		if r.c.Name == "watch" {
			late := time.AfterFunc(2*time.Second, func() { _ = cmd.Process.Signal(os.Interrupt) })
			defer late.Stop()
		}
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	text := out.String()
	switch status := cmd.ProcessState.ExitCode(); {
	case ctx.Err() != nil:
		r.t.Errorf("%s: has not ended after %s:\n%s", r.name, limit, tail(text))
	case way == "terminal" && r.c.Name == "watch" && interrupted(cmd): // Ctrl-C during quit terminates zksh at once
	case err != nil && !errors.As(err, &exit), status < 0:
		r.t.Errorf("%s: %v\n%s", r.name, err, tail(text))
	case strings.Contains(text, "panic:") || strings.Contains(text, "goroutine "):
		r.t.Errorf("%s: panic:\n%s", r.name, tail(text))
	case way == "terminal": // the exit status is that of quit
	case status == 0 && r.fail && r.c.Effect.Has(commands.Writes) && !slices.Contains(harmless, r.c.Name):
		r.t.Errorf("%s: status 0, although no write can succeed:\n%s", r.name, tail(text))
	case status == 0 && !r.fail:
		stop()
		r.verify(text)
	}
}

// interrupted reports whether a program was terminated by SIGINT.
func interrupted(cmd *exec.Cmd) bool {
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGINT
}

func tail(text string) string { return text[max(0, len(text)-1500):] }

// cutRepeatedly cuts the server's connections again and again until stop is called.
func (r *faultyRun) cutRepeatedly(ctx context.Context) (stop func()) {
	if !r.cut {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // ends when ctx is cancelled
		defer close(ended)
		for pause := 20 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, time.Second) {
			select {
			case <-time.After(pause):
				r.box.Cut()
			case <-ctx.Done():
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// sendRaw sends a request on a new connection. It returns false if the server does not answer in time.
func (r *faultyRun) sendRaw(patience time.Duration, op int32, body []byte) (f rawzk.Frame, ok bool) {
	nc, err := net.Dial("tcp", r.box.Addr())
	if err != nil {
		return f, false
	}
	defer nc.Close()
	if nc.SetDeadline(time.Now().Add(patience)) != nil {
		return f, false
	}
	c, err := rawzk.Connect(nc, rawzk.Session{Timeout: 10000}, 0)
	if err != nil {
		return f, false
	}
	frames, err := c.Call(op, body)
	if err != nil {
		return f, false
	}
	return frames[len(frames)-1], true
}

// prepare creates the znodes that the lines use. It stops if the server does not answer, as some of the
// faulty servers do.
func (r *faultyRun) prepare() {
	for _, path := range []string{"/app", "/app/config", "/locks", "/q"} {
		if _, ok := r.sendRaw(2*time.Second, jute.OpCreate, rawzk.Create(path, []byte("x"), rawzk.Open, 0)); !ok {
			return
		}
	}
	r.prepared = true
}

// expectedPaths lists, by command, paths that the command's line creates or, with a leading "-",
// deletes.
var expectedPaths = map[string][]string{
	"delete": {"-/app/config"}, "deleteall": {"-/app/old"}, "rmr": {"-/app/old"}, "cp": {"/copied", "/copied/config"},
	"mv": {"/to", "-/app/from"}, "mirror": {"/mirrored/config"},
}

// verify checks that a line with exit status 0 has had its effect, if it found the znodes that it uses.
func (r *faultyRun) verify(text string) {
	if !r.prepared {
		return
	}
	const patience = 200 * time.Millisecond
	for _, path := range expectedPaths[r.c.Name] {
		path, gone := strings.CutPrefix(path, "-")
		f, ok := r.sendRaw(patience, jute.OpExists, rawzk.PathWatch(path, false))
		if ok && (f.Err == 0) == gone {
			r.t.Errorf("%s: status 0, and %s is there: %v\n%s", r.name, path, gone, tail(text))
		}
	}
	if r.c.Name == "set" {
		if f, ok := r.sendRaw(patience, jute.OpGetData, rawzk.PathWatch("/app/config", false)); ok && !bytes.Contains(f.Body, []byte("threads=4")) {
			r.t.Errorf("%s: status 0, and the data is %q", r.name, f.Body)
		}
	}
}

// onTerminal types the lines, then types quit every second until the program exits.
func (r *faultyRun) onTerminal(ctx context.Context, cmd *exec.Cmd, out *bytes.Buffer) error {
	cmd.Stdout, cmd.Stderr = nil, nil
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 120})
	if err != nil {
		return err
	}
	read := make(chan struct{})
	go func() { // ends when the program does
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := tty.Read(buf)
			out.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	keys := strings.Join(r.lines, "\r") + "\r"
	for typing := true; typing; {
		if _, err := tty.WriteString(keys); err != nil {
			break // the program has ended
		}
		keys = "quit\r"
		if r.c.Name == "watch" {
			keys = "\x03quit\r"
		}
		select {
		case <-time.After(time.Second):
		case <-read:
			typing = false
		case <-ctx.Done():
			typing = false
		}
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return errors.Join(err, tty.Close())
	}
	<-read
	return errors.Join(err, tty.Close())
}

// zksh can acquire a lock below a missing parent znode even if the server closes the connection over
// requests to create containers or never answers them.
func TestLockInAMissingFolderWithoutContainers(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"hangop:19", "ignore:19", "clickhouse", "raftkeeper"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			box := zktest.Faulty(t, mode)
			p := openPipeline(t, "-server", box.Addr(), "-timeout", "4000", "lock", "-w", "30s", "/new/deep/l", "--", "echo", "got it")
			if out, err := io.ReadAll(p.out); err != nil || string(out) != "got it\n" {
				t.Errorf("%q, %v", out, err)
			}
			wantExit(t, p.cmd, 0)
		})
	}
}

// If the server closes the connection over multiRead and getAllChildrenNumber, zksh reads and counts
// subtrees without them.
func TestTreesWithoutMultiRead(t *testing.T) {
	t.Parallel()
	box := zktest.Faulty(t, "hangop:22,104")
	runLinesAt(t, box.Addr(), "create /a 1\ncreate /a/b 2\ncreate /a/c 3\ncreate /a/b/d 4\n")
	got := runScript(t, box.Addr(), "ls -R /a\ntree /a\ngetAllChildrenNumber /a\n", shell.Config{})
	if want := "/a\n/a/b\n/a/c\n/a/b/d\n/a\n├── b\n│   └── d\n└── c\n3\n"; got.out != want || got.status != 0 {
		t.Error(cmp.Diff(want, got.out), got)
	}
	dump := runAt(t, box.Addr(), "export", "-R", "/a", "-")
	if n := strings.Count(dump, `"path":`); n != 4 {
		t.Errorf("%d znodes are exported:\n%s", n, dump)
	}
}
