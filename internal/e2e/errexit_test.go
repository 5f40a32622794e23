//go:build unix

package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/shell"
)

// errexit returns the configuration of a script with -e.
func errexit(window int) shell.Config { return shell.Config{Window: window, StopAtError: true} }

// createScript returns a script with the given number of creates, of which line number bad
// fails; 0 means none.
func createScript(lines, bad int) string {
	var script strings.Builder
	for i := 1; i <= lines; i++ {
		n := i
		if i == bad {
			n = 1
		}
		fmt.Fprintf(&script, "create /n%03d\n", n)
	}
	return script.String()
}

// With -e, nothing after a failed write takes effect, and each write is one request, whatever the
// window.
func TestExactScript(t *testing.T) {
	t.Parallel()
	creates := func(n int) []int32 { return slices.Repeat([]int32{jute.OpCreate}, n) }
	for _, c := range []struct {
		name, script string
		requests     []int32 // requests that write
	}{
		{"all go", createScript(250, 0), creates(250)},
		{"one fails", createScript(250, 150), creates(150)},
		{"the first fails", "create /none/x\ncreate /b\n", creates(1)},
		{"one cannot be sent", "create /a\ncreate /b\ncreate c\ncreate /d\n", creates(2)},
		{"reads between", "create /a\ncreate /b\nget /a\ndelete /a\n", append(creates(2), jute.OpDelete)},
		{"a read fails", "create /a\nget /none\ncreate /b\n", creates(1)},
		{"no child of an ephemeral", "create -e /e\ncreate /e/c\ncreate /b\n", creates(2)},
		{"twice the same version", "create /a\nset -v 0 /a x\nset -v 0 /a y\ncreate /b\n",
			[]int32{jute.OpCreate, jute.OpSetData, jute.OpSetData}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var shown []scriptResult
			for _, window := range []int{1, 64} {
				p := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
				got := runScript(t, p.Addr(), c.script, errexit(window)).normalized(p.Addr())
				got.out = times.ReplaceAllString(got.out, "TIME")
				shown = append(shown, got)
				writes := slices.DeleteFunc(p.Requests(), func(op int32) bool {
					return !slices.Contains([]int32{jute.OpMulti, jute.OpCreate, jute.OpSetData, jute.OpDelete}, op)
				})
				if !slices.Equal(writes, c.requests) {
					t.Errorf("the requests are %d, not %d", writes, c.requests)
				}
			}
			if shown[0] != shown[1] {
				t.Error(cmp.Diff(shown[0].String(), shown[1].String()))
			}
		})
	}
}

// With -e, zksh sends a line only after the answer to the line before it.
func TestExactWaits(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	p := zktest.NewProxy(t, box.Addr())
	d := openDialogue(t, p.Addr(), errexit(64))
	fmt.Fprintln(d, "create /first")
	d.until(t, "Created /first\n")
	p.HoldReplies(true)
	fmt.Fprintln(d, "create /a\ncreate /b\nquit")
	zktest.Eventually(t, "/a exists", func() bool { return strings.Contains(runAt(t, box.Addr(), "ls", "/"), "a") })
	if got := runAt(t, box.Addr(), "create", "/b"); got != "Created /b\n" {
		t.Errorf("the next line has been sent: %s", got)
	}
	p.HoldReplies(false)
	want := scriptResult{"Created /first\nCreated /a\n", "script:3: create: Node already exists: /b\n", commands.StatusFailed}
	if got := <-d.ended; got != want {
		t.Error(got)
	}
}

// After a connection loss at any point, the report on each line is true.
func TestCutExact(t *testing.T) {
	t.Parallel()
	const lines, bad = 60, 40
	box := zktest.Sandbox(t, sandbox.Options{})
	client := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 30 * time.Second})
	for _, skip := range []int{0, 1, 20, bad - 2, bad - 1} { // the last one is the line that fails
		for name, cut := range map[string]func(p *zktest.Proxy) <-chan struct{}{
			"before": func(p *zktest.Proxy) <-chan struct{} { return p.CutBeforeSkipping(jute.OpCreate, skip) },
			"after":  func(p *zktest.Proxy) <-chan struct{} { return p.CutAfterSkipping(jute.OpCreate, skip) },
		} {
			t.Run(fmt.Sprint(name, skip), func(t *testing.T) {
				t.Parallel()
				root := fmt.Sprint("/", name, skip)
				made := zkconn.Create(root, nil, zkconn.OpenACL(), zkconn.CreateMode{})
				zktest.Must(t, zkconn.Exec(zktest.Within(t), client, made))
				p := zktest.NewProxy(t, box.Addr())
				done := cut(p)
				got := runScript(t, p.Addr()+root, createScript(lines, bad), errexit(64))
				<-done
				list, err := zkconn.Do(zktest.Within(t), client, zkconn.List(root))
				zktest.Must(t, err)
				there := func(line int) bool { return slices.Contains(list.Names, fmt.Sprintf("n%03d", line)) }
				if _, wrong := checkCut(got, there, lines, true); len(wrong) > 0 {
					t.Errorf("%s\n%s\n%s", strings.Join(wrong, "\n"), got, list.Names)
				}
			})
		}
	}
}

// withoutFailures removes the failed lines from a script, except for the last few. With -e, the
// script then runs far before it stops.
func withoutFailures(t *rapid.T, script string, got scriptResult) string {
	bad := map[int]bool{}
	for _, m := range failedLine.FindAllStringSubmatch(got.err, -1) {
		n, _ := strconv.Atoi(m[1])
		bad[n] = true
	}
	stay := rapid.IntRange(0, 5).Draw(t, "failures that stay")
	lines := strings.Split(script, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if bad[i+1] && stay > 0 {
			stay--
		} else if bad[i+1] {
			lines = slices.Delete(lines, i, i+1)
		}
	}
	return strings.Join(lines, "\n")
}

var failedLine = regexp.MustCompile(`(?m)^script:(\d+):`)
