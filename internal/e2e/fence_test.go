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

// fenceBy has what this process starts be fenced by a znode; by nothing without one.
func fenceBy(t *testing.T, server, node string) {
	if node == "" {
		server = ""
	}
	t.Setenv("ZK_LOCK_FENCE", server+node)
}

// A script behind a fence shows what it shows without one.
func TestFenceShowsNothing(t *testing.T) {
	clock := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		script, exact := drawScript(rt), rapid.Bool().Draw(rt, "exact")
		var free played
		for _, fenced := range []bool{false, true} {
			s := sandbox.New(sandbox.Options{Now: func() time.Time { return clock }, EnforceQuota: true})
			addr, err := s.Listen("127.0.0.1:0")
			if err != nil {
				rt.Fatal(err)
			}
			if fenceBy(t, addr.String(), "/zookeeper"); !fenced {
				fenceBy(t, "", "")
			}
			got := play(rt, addr.String(), script, shell.Config{Window: 64, StopAtError: exact})
			_ = s.Close()
			if got = got.without(addr.String()); !fenced {
				free = got
			} else if got != free {
				rt.Fatalf("without a fence and with one:\n%s", cmp.Diff(free.String(), got.String()))
			}
		}
	})
}

// So it is on a real server.
func TestFenceShowsNothingOnServer(t *testing.T) {
	server, folders := zktest.Shared(t).Addr(), 0
	rapid.Check(t, func(rt *rapid.T) {
		script := drawScript(rt)
		var free played
		for _, node := range []string{"", "/zookeeper"} {
			folders++
			root := fmt.Sprintf("/fence%d-%d", folders, time.Now().UnixNano())
			at(t, server, "create", root)
			fenceBy(t, server, node)
			got := play(rt, server+root, script, shell.Config{Window: 64}).without(root)
			if node == "" {
				free = got
			} else if got != free {
				rt.Fatalf("without a fence and with one:\n%s", cmp.Diff(free.String(), got.String()))
			}
		}
	})
}

// A lock goes while many lines are under way: those before it have gone are done, and
// told; of the rest nothing happens, and one line is named.
func TestLossInTheWindow(t *testing.T) {
	t.Parallel()
	for name, addr := range map[string]string{"sandbox": zktest.Sandbox(t, sandbox.Options{}).Addr(), "server": zktest.Shared(t).Addr()} {
		for _, flag := range []string{"--window=64", "--window=1", "-e"} {
			t.Run(name+"/"+flag, func(t *testing.T) {
				t.Parallel()
				root := fmt.Sprintf("/loss-%d", time.Now().UnixNano())
				at(t, addr, "create", root)
				rival := zksession.Open(t, zkconn.Config{Servers: addr + root, Timeout: zktest.Patience})
				p := openPipeline(t, flag, "-server", addr+root)
				if _, err := io.WriteString(p.in, "create /n\nlock /l\n"); err != nil {
					t.Fatal(err)
				}
				go func() { // ends with zksh
					for i := 0; ; i++ {
						if _, err := fmt.Fprintf(p.in, "create /n/%06d\nget /n\n", i); err != nil {
							return
						}
					}
				}()
				late := time.AfterFunc(zktest.Patience, func() { _ = p.cmd.Process.Signal(syscall.SIGABRT) }) // which ends the reads below
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
				if err != nil {
					t.Fatal(err)
				}
				if len(list.Names) != made || made-asked != 0 && made-asked != 1 {
					t.Errorf("%d are said to be created, %d are there; %d answers to what stands between", made, len(list.Names), asked)
				}
				told := strings.Split(strings.TrimSuffix(p.errs.String(), "\n"), "\n")
				var named []string
				for _, line := range told {
					if strings.HasPrefix(line, "stdin:") {
						named = append(named, line)
					}
				}
				if len(named) != 1 || !strings.Contains(named[0], "/l no longer exists") && !strings.Contains(named[0], "/l is lost") {
					t.Errorf("told:\n%s", strings.Join(told, "\n"))
				}
			})
		}
	}
}

// By hand a lost lock shows in the prompt, and as long as it does nothing is written.
func TestFenceByHand(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 140, 30)
	s.line("create /w 1")
	s.want(`^Created /w$`)
	s.line("lock /l")
	s.want(`\(CONNECTED, 1 lock\) 2\]$`)
	rival := zksession.Open(t, zkconn.Config{Servers: s.server, Timeout: zktest.Patience})
	list, err := zkconn.Do(zktest.Within(t), rival, zkconn.List("/l"))
	if err != nil {
		t.Fatal(err)
	}
	if err := zkconn.Exec(zktest.Within(t), rival, zkconn.Delete("/l/"+list.Names[0], -1)); err != nil {
		t.Fatal(err)
	}
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
