package zktest

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestServerLifeCycle(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	s := Start(t, Heap(64), JavaProperty("zktest.mark", "seen"))
	t.Logf("Start took %s", time.Since(begin))
	c := dialRaw(t, s.Addr())
	if code := c.wantReply(c.create("/kept")); code != 0 {
		t.Fatalf("create: code %d", code)
	}

	s.Pause()
	xid := c.exists("/kept")
	c.wantNothing()
	s.Resume()
	if code := c.wantReply(xid); code != 0 {
		t.Fatalf("exists: code %d", code)
	}

	s.Stop()
	c.wantCut()
	if conn, err := net.Dial("tcp", s.Addr()); err == nil {
		conn.Close()
		t.Fatal("a stopped server accepts")
	}
	s.Stop() // a second call does nothing

	begin = time.Now()
	s.Restart()
	t.Logf("Restart took %s", time.Since(begin))
	c = dialRaw(t, s.Addr())
	if code := c.wantReply(c.exists("/kept")); code != 0 {
		t.Fatalf("exists after restart: code %d", code)
	}
	if !strings.Contains(s.Log(), "binding to port") {
		t.Errorf("no sense in the log:\n%s", s.Log())
	}
}

// The server of a test binary ends even if the binary is killed and runs no cleanup.
func TestServerDiesWithItsTest(t *testing.T) {
	const mark = "ZKTEST_ORPHAN"
	if os.Getenv(mark) != "" {
		os.Stdout.WriteString("addr " + Shared(t).Addr() + "\n")
		select {}
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a child with its parent")
	}
	t.Parallel()
	Shared(t) // skips the test if ZooKeeper is not installed
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerDiesWithItsTest$")
	cmd.Env = append(os.Environ(), mark+"=1", "TMPDIR="+t.TempDir())
	cmd.SysProcAttr = dieWithParent()
	out, err := cmd.StdoutPipe()
	Must(t, err)
	Must(t, cmd.Start())
	var addr string
	for lines := bufio.NewScanner(out); addr == "" && lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), "addr "); found {
			addr = rest
		}
	}
	Must(t, cmd.Process.Kill())
	_ = cmd.Wait() // always fails, because the process was killed
	if addr == "" {
		t.Fatal("the other test binary started no server")
	}
	Eventually(t, "the server has ended with its test", func() bool { return !serves(addr) })
}
