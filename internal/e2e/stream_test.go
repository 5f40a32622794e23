//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// requestsReceived returns the number of requests that a server has received.
func requestsReceived(t *testing.T, addr string) int {
	t.Helper()
	answer := zktest.Ask(t, addr, "srvr")
	m := regexp.MustCompile(`(?m)^Received: (\d+)$`).FindStringSubmatch(answer)
	if m == nil {
		t.Fatalf("srvr says %q", answer)
	}
	n, err := strconv.Atoi(m[1])
	zktest.Must(t, err)
	return n
}

// When the reader of its output exits, zksh stops walking the tree: it has read only a small
// part of the tree.
func TestHeadEndsAWalk(t *testing.T) {
	t.Parallel()
	const znodes = 50_000
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	createTree(t, server, znodes)
	for _, line := range []string{"ls -R /tree", "find /tree -size 0", "tree -s /tree", "du -L 9 /tree"} {
		before := requestsReceived(t, server)
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "{ zksh -server "+server+" "+line+"; echo $? >&3; } | head -3")
		status, w, err := os.Pipe()
		zktest.Must(t, err)
		cmd.ExtraFiles = []*os.File{w}
		out, err := cmd.Output()
		w.Close()
		if err != nil || strings.Count(string(out), "\n") != 3 {
			t.Errorf("%s: %q, %v", line, out, err)
		}
		code, err := bufio.NewReader(status).ReadString('\n')
		if code != "141\n" || err != nil {
			t.Errorf("%s ended with %q, %v", line, code, err)
		}
		status.Close()
		// A pipe buffers a few thousand lines.
		if n := requestsReceived(t, server) - before; n > znodes/3 {
			t.Errorf("%s: the server was asked %d times", line, n)
		}
	}
}

// The pager shows a long answer while it is still arriving. When the user leaves the pager, the
// prompt returns.
func TestPagerOfALongWalk(t *testing.T) {
	t.Parallel()
	s := openBash(t, 60, 10)
	s.server = zktest.Sandbox(t, sandbox.Options{}).Addr()
	createTree(t, s.server, 30_000)
	for pager, end := range map[string]string{"tail -n 1": "/tree/n0000029999", "head -n 1": "/tree", "no-such-pager": "cannot run the pager: exit status 127"} {
		s.line("export PAGER='" + pager + "'")
		s.start()
		s.line("ls -R /tree")
		s.want(`^` + end + `\n\[zk: \S+ 1\]$`)
		s.keys("C-d")
		s.wantEnd("$")
	}
}

// deleteall deletes while it reads the tree. When interrupted, it reports how many znodes were
// deleted.
func TestDeleteallInterrupted(t *testing.T) {
	t.Parallel()
	const znodes = 60_000
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	createTree(t, server, znodes)
	cmd := exec.Command("zksh", "-server", server, "deleteall", "-b", "10", "/tree")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	before := requestsReceived(t, server)
	zktest.Must(t, cmd.Start())
	zktest.Eventually(t, "it deletes", func() bool { return requestsReceived(t, server)-before > 500 })
	err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait())
	m := regexp.MustCompile(`^deleted (\d+) znodes of /tree; the subtree contains more znodes: interrupted( while waiting .*)?\n$`).FindStringSubmatch(out.String())
	if err == nil || cmd.ProcessState.ExitCode() != 130 || m == nil {
		t.Fatalf("%q, %v", out.String(), err)
	}
	// Requests in flight whose answers did not arrive in time are not counted: at most eight
	// transactions of ten deletes.
	left := atoi(t, strings.TrimSpace(runAt(t, server, "getAllChildrenNumber", "/tree")))
	if more := znodes - atoi(t, m[1]) - left; more < 0 || more > 80 || more > 0 && m[2] == "" {
		t.Errorf("%s gone, and left are %d", m[1], left)
	}
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	zktest.Must(t, err)
	return n
}
