//go:build unix

package e2e

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/shell"
)

// setFence makes the shells of this process use the given znode as their fence; an empty node
// means no fence.
func setFence(t *testing.T, server, node string) {
	if node == "" {
		server = ""
	}
	t.Setenv("ZK_LOCK_FENCE", server+node)
}

// A script prints the same with a fence as without one.
func TestFenceShowsNothing(t *testing.T) {
	clock := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		script, exact := drawScript(rt), rapid.Bool().Draw(rt, "exact")
		var free scriptResult
		for _, fenced := range []bool{false, true} {
			s := sandbox.New(sandbox.Options{Now: func() time.Time { return clock }, EnforceQuota: true})
			addr, err := s.Listen("127.0.0.1:0")
			zktest.Must(rt, err)
			if setFence(t, addr.String(), "/zookeeper"); !fenced {
				setFence(t, "", "")
			}
			got := runScript(rt, addr.String(), script, shell.Config{Window: 64, StopAtError: exact})
			_ = s.Close()
			if got = got.normalized(addr.String()); !fenced {
				free = got
			} else if got != free {
				rt.Fatalf("without a fence and with one:\n%s", cmp.Diff(free.String(), got.String()))
			}
		}
	})
}

// On a real server too, a script prints the same with a fence as without one.
func TestFenceShowsNothingOnServer(t *testing.T) {
	server, folders := zktest.Shared(t).Addr(), 0
	rapid.Check(t, func(rt *rapid.T) {
		script := drawScript(rt)
		var free scriptResult
		for _, node := range []string{"", "/zookeeper"} {
			folders++
			root := fmt.Sprintf("/fence%d-%d", folders, time.Now().UnixNano())
			runAt(t, server, "create", root)
			setFence(t, server, node)
			got := runScript(rt, server+root, script, shell.Config{Window: 64}).normalized(root)
			if node == "" {
				free = got
			} else if got != free {
				rt.Fatalf("without a fence and with one:\n%s", cmp.Diff(free.String(), got.String()))
			}
		}
	})
}

// When a lock is lost while many lines are in flight, the lines executed before the loss are
// done and reported. No later line takes effect, and exactly one line is named in an error.
func TestLockLossInWindow(t *testing.T) {
	t.Parallel()
	for name, addr := range map[string]string{"sandbox": zktest.Sandbox(t, sandbox.Options{}).Addr(), "server": zktest.Shared(t).Addr()} {
		for _, flags := range [][]string{nil, {"-e"}} {
			t.Run(fmt.Sprint(name, flags), func(t *testing.T) {
				t.Parallel()
				root := fmt.Sprintf("/loss-%d", time.Now().UnixNano())
				runAt(t, addr, "create", root)
				rival := zksession.Open(t, zkconn.Config{Servers: addr + root, Timeout: zktest.Patience})
				p := openPipeline(t, append(flags, "-server", addr+root)...)
				if _, err := io.WriteString(p.in, "create /n\nlock /l\n"); err != nil {
					t.Fatal(err)
				}
				go func() { // ends when zksh does
					for i := 0; ; i++ {
						if _, err := fmt.Fprintf(p.in, "create /n/%06d\nget /n\n", i); err != nil {
							return
						}
					}
				}()
				late := time.AfterFunc(zktest.Patience, func() { _ = p.cmd.Process.Signal(syscall.SIGABRT) }) // unblocks the reads below
				defer late.Stop()
				var node string
				made, asked := 0, 0
				for made < 500 || node != "" {
					line, err := p.out.ReadString('\n')
					if err != nil {
						break
					}
					if m := regexp.MustCompile(`^locked /l .* node=(\S+)`).FindStringSubmatch(line); m != nil {
						node = m[1]
					}
					switch line = strings.TrimSuffix(line, "\n"); {
					case line == fmt.Sprintf("Created /n/%06d", made):
						made++
					case line == "null":
						asked++
					case strings.HasPrefix(line, "Created /n/"):
						t.Fatalf("%s behind %d", line, made-1)
					}
					if made == 500 {
						go func() { _ = zkconn.Exec(zktest.Within(t), rival, zkconn.Delete(node, -1)) }()
					}
				}
				wantExit(t, p.cmd, 74)
				list, err := zkconn.Do(zktest.Within(t), rival, zkconn.List("/n"))
				zktest.Must(t, err)
				if len(list.Names) != made || made-asked != 0 && made-asked != 1 {
					t.Errorf("%d are said to be created, %d are there; %d answers to what stands between", made, len(list.Names), asked)
				}
				reports := strings.Split(strings.TrimSuffix(p.errs.String(), "\n"), "\n")
				var named []string
				for _, line := range reports {
					if strings.HasPrefix(line, "stdin:") {
						named = append(named, line)
					}
				}
				if len(named) != 1 || !strings.Contains(named[0], "/l no longer exists") && !strings.Contains(named[0], "/l is lost") {
					t.Errorf("reports:\n%s", strings.Join(reports, "\n"))
				}
			})
		}
	}
}

// At the prompt, a lost lock is shown, and zksh rejects writes until the user unlocks it.
func TestFenceInteractive(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 140, 30)
	s.line("create /w 1")
	s.want(`^Created /w$`)
	s.line("lock /l")
	s.want(`\(CONNECTED, 1 lock\) 2\]$`)
	rival := zksession.Open(t, zkconn.Config{Servers: s.server, Timeout: zktest.Patience})
	list, err := zkconn.Do(zktest.Within(t), rival, zkconn.List("/l"))
	zktest.Must(t, err)
	zktest.Must(t, zkconn.Exec(zktest.Within(t), rival, zkconn.Delete("/l/"+list.Names[0], -1)))
	s.want(`lock /l is lost: another client deleted the holder's znode`)
	s.line("get /w")
	s.want(`^1\n\[zk: \S+\(CONNECTED, 1 lock lost\) 3\]$`)
	for n, line := range []string{"set /w 2", "create /x"} {
		s.line(line)
		s.want(fmt.Sprintf(`^nothing\s+was\s+written:\s+the\s+lock\s+on\s+/l\s+is\s+lost,\s+because\s+the\s+znode\s+/l/_c_\S+\s+no\s+longer\s+exists;\s+to\s+write\s+without\s+the\s+lock,\s+run:\s+unlock\s+/l\n\[zk: \S+\(CONNECTED, 1 lock lost\) %d\]$`, n+4))
	}
	s.line("unlock /l")
	s.want(`\(CONNECTED\) 6\]$`)
	s.line("set /w 2")
	s.want(`\(CONNECTED\) 7\]$`)
	s.line("get /w")
	s.want(`^2\n\[zk: \S+\(CONNECTED\) 8\]$`)
}
