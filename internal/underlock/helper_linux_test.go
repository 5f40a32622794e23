package underlock

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

const nobody = 65534 // number of the user and of the group

// compiled is the program in testdata/world.c, compiled once for all tests.
var compiled struct {
	sync.Mutex
	path string // empty before it is compiled
}

// needPrograms returns the paths of zksh and of the program in testdata/world.c, which every user can
// run. It ends the test if there is no C compiler.
func needPrograms(t *testing.T) (zksh, world string) {
	t.Helper()
	zktest.NeedProgram(t, "cc", "gcc libc6-dev")
	zksh, err := exec.LookPath("zksh")
	zktest.Must(t, err)
	compiled.Lock()
	defer compiled.Unlock()
	if compiled.path == "" {
		dir := filepath.Dir(zksh) // TestMain removes it at the end
		path := filepath.Join(dir, "world")
		cmd := zktest.Command(zktest.Within(t), t, "cc", "-O1", "-o", path, "testdata/world.c")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cc: %v\n%s", err, out)
		}
		zktest.Must(t, os.Chmod(dir, 0o755))
		compiled.path = path
	}
	return zksh, compiled.path
}

// newServer starts a server for the locks of one test.
func newServer(t *testing.T) string {
	t.Helper()
	return zktest.Sandbox(t, sandbox.Options{}).Addr()
}

// openDir returns a new directory that every user can read and uid owns.
func openDir(t *testing.T, uid int) string {
	t.Helper()
	dir := t.TempDir()
	for up := dir; up != os.TempDir(); up = filepath.Dir(up) {
		zktest.Must(t, os.Chmod(up, 0o755))
	}
	if os.Geteuid() == 0 {
		zktest.Must(t, os.Chown(dir, uid, uid))
	}
	return dir
}

// environment returns an environment in which all files of the user, also temporary ones, are in
// dir. It hides the make that runs the tests from the one that a test runs.
func environment(dir string) []string {
	env := append(os.Environ(), zktest.ProgramEnv()...)
	return append(env, "HOME="+dir, "TMPDIR="+dir, "XDG_CONFIG_HOME="+dir+"/config", "XDG_STATE_HOME="+dir+"/state",
		"ZKSH_SERVER=", "ZK_HOST=", "PAGER=", "NO_COLOR=", "TERM=dumb", "TZ=UTC", "LC_ALL=C",
		"MAKEFLAGS=", "MAKELEVEL=", "MFLAGS=")
}

// as makes a command run as another user, if the test runs as root. uid is 0 or nobody.
func as(cmd *exec.Cmd, uid int) {
	if uid != 0 && os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
}

// A result contains what a program printed, and its exit status.
type result struct {
	out    string
	status int
}

// run runs a program in dir, with standard output and standard error on one pipe. If the program
// does not end, the test fails.
func run(t *testing.T, dir string, args ...string) result {
	t.Helper()
	cmd := zktest.Command(zktest.Within(t), t, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, environment(dir)
	return finish(t, cmd)
}

// finish runs a command that run has not prepared.
func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: %v", cmd, err)
	}
	return result{out.String(), status(cmd.ProcessState)}
}

// status returns the exit status as a shell shows it.
func status(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return state.ExitCode()
}

// bootTime returns the time of the clock that also counts while the machine sleeps.
func bootTime(t *testing.T) time.Duration {
	t.Helper()
	var now unix.Timespec
	zktest.Check(t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &now))
	return time.Duration(now.Nano())
}

// processes returns the processes whose command line contains the text, and that can still run.
func processes(t *testing.T, text string) (pids []int) {
	t.Helper()
	all, err := os.ReadDir("/proc")
	zktest.Check(t, err)
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline")) // has ended, if this fails
		if strings.Contains(string(line), text) && zktest.Runs(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// describe returns the command lines of processes, for error messages.
func describe(pids []int) string {
	var b strings.Builder
	for _, pid := range pids {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline") // empty if it has just ended
		b.WriteString(strconv.Itoa(pid) + " " + strings.ReplaceAll(string(line), "\x00", " ") + "\n")
	}
	return b.String()
}

// killAll kills processes that a failed test has left.
func killAll(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL) // may have ended
	}
}

// children returns the children of a process.
func children(pid int) (pids []int) {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children") // the pattern is valid
	for _, file := range files {
		text, _ := os.ReadFile(file) // the thread has ended, if this fails
		for _, word := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(word)
			if err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// controlGroups returns the control groups of zksh that exist.
func controlGroups(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, pattern := range []string{"/sys/fs/cgroup/*zksh*", "/sys/fs/cgroup/*/*zksh*", "/sys/fs/cgroup/*/*/*zksh*"} {
		paths, err := filepath.Glob(pattern)
		zktest.Check(t, err)
		for _, path := range paths {
			found[path] = true
		}
	}
	return found
}

// until waits until a condition is met, or the context ends. It reports which. The condition may be
// expensive, so it is not checked more often than 50 times a second.
func until(ctx context.Context, condition func() bool) bool {
	for !condition() {
		select {
		case <-ctx.Done():
			return condition()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}

// discard reads to the end.
func discard(r io.Reader) { _, _ = io.Copy(io.Discard, r) }
