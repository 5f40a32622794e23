package zklock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// roleVariable makes the test binary a process that holds a lock. Its value is the server,
// the path and the session timeout, separated by spaces.
const roleVariable = "ZKLOCK_TEST_HOLDER"

// playRole runs the holder if roleVariable is set, and reports whether it is.
func playRole() bool {
	role := os.Getenv(roleVariable)
	if role == "" {
		return false
	}
	if err := runHolder(role); err != nil {
		fmt.Println("failed:", err)
	}
	return true
}

// runHolder acquires the lock, prints that it holds it, and returns when its input ends. If
// the lock is lost, it first tries to write under the lock, like a process that has not
// noticed.
func runHolder(role string) (err error) {
	var addr, path, duration string
	if _, err := fmt.Sscan(role, &addr, &path, &duration); err != nil {
		return err
	}
	timeout, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	s, err := zkconn.Open(zkconn.Config{Servers: addr, Timeout: timeout})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*zktest.Patience)
	defer cancel()
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	c := client{zk: s}
	pinned, err := c.Session(ctx)
	if err != nil {
		return err
	}
	lease, err := zklock.New(c, path, zklock.Options{}).Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println("held", lease.Token())
	over := make(chan struct{})
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	select {
	case <-over:
		return nil
	case <-lease.Lost():
	}
	err = pinned.Multi(ctx, &zookeeper.CheckVersionRequest{Path: lease.Node(), Version: -1},
		&zookeeper.CreateRequest{Path: path + "/written", Acl: zookeeper.WorldACL(zookeeper.PermAll)})
	fmt.Println("lost", err)
	return nil
}

// A process runs the test binary as a holder.
type process struct {
	s     *scene
	cmd   *exec.Cmd
	in    io.Closer
	lines *bufio.Scanner
	token int64
}

func (s *scene) holderProcess(timeout time.Duration) *process {
	s.Helper()
	h := &process{s: s, cmd: exec.CommandContext(zktest.Within(s.T), os.Args[0])}
	h.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", roleVariable, s.addr, s.path, timeout))
	h.cmd.Stderr = os.Stderr
	in, err := h.cmd.StdinPipe()
	must(s.T, err)
	out, err := h.cmd.StdoutPipe()
	must(s.T, err)
	h.in, h.lines = in, bufio.NewScanner(out)
	must(s.T, h.cmd.Start())
	s.Cleanup(func() {
		_ = h.cmd.Process.Kill() // fails only if the process has ended
		_ = h.cmd.Wait()         // killed, or waited for before
	})
	if _, err := fmt.Sscanf(h.readLine("held"), "held %d", &h.token); err != nil {
		s.Fatal(err)
	}
	return h
}

// readLine returns the next line of output, which must begin with word.
func (h *process) readLine(word string) string {
	h.s.Helper()
	if !h.lines.Scan() || !strings.HasPrefix(h.lines.Text(), word) {
		h.s.Fatalf("the process said %q, %v; want %q", h.lines.Text(), h.lines.Err(), word)
	}
	return h.lines.Text()
}

func (h *process) signal(sig syscall.Signal) {
	h.s.Helper()
	must(h.s.T, h.cmd.Process.Signal(sig))
}

// CASES.md, case 22: the holder is killed.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	h := s.holderProcess(6 * time.Second)
	b := s.simpleActor()
	w := b.queue(zklock.Exclusive)
	h.signal(syscall.SIGKILL)
	b.release(w.awaitLease())
}

// CASES.md, case 23: the holder exits normally.
func TestHolderExits(t *testing.T) {
	t.Parallel()
	s := sharedScene(t)
	defer s.finish()
	h := s.holderProcess(2 * zktest.Patience) // a timeout that nobody waits for
	b := s.simpleActor()
	w := b.queue(zklock.Exclusive)
	must(t, h.in.Close())
	b.release(w.awaitLease())
}
