//go:build unix

package e2e

import (
	"bufio"
	"fmt"
	"io"
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

// exactConfig returns the configuration of a script with -e. A window of 1 sends the writes one
// by one; a larger one sends them together.
func exactConfig(window int) shell.Config { return shell.Config{Window: window, StopAtError: true} }

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

// With -e, zksh sends several writes in one transaction. Nothing after a failed write takes
// effect, and the output is the same as if each line had waited for the line before.
func TestExactScript(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		requests     []int32 // requests that write
	}{
		{"all go", createScript(250, 0), []int32{jute.OpMulti, jute.OpMulti, jute.OpMulti}},
		{"one fails", createScript(250, 150), []int32{jute.OpMulti, jute.OpMulti, jute.OpMulti, jute.OpCreate}},
		{"the first fails", "create /none/x\ncreate /b\n", []int32{jute.OpMulti, jute.OpCreate}},
		{"one cannot be sent", "create /a\ncreate /b\ncreate c\ncreate /d\n", []int32{jute.OpMulti}},
		{"reads between", "create /a\ncreate /b\nget /a\ndelete /a\n", []int32{jute.OpMulti, jute.OpDelete}},
		{"they build on each other", "create /a x\ncreate /a/b\ncreate -s /a/s-\nset -v 0 /a/b y\ndelete /a/b\ncreate -e /a/b\ncreate -s -e /a/s-\nls /a\n",
			[]int32{jute.OpMulti}},
		{"no child of an ephemeral", "create -e /e\ncreate /e/c\n", []int32{jute.OpMulti, jute.OpCreate, jute.OpCreate}},
		{"twice the same version", "create /a\nset -v 0 /a x\nset -v 0 /a y\n", []int32{jute.OpMulti, jute.OpMulti, jute.OpSetData}},
		{"with a watch each goes alone", "create /a\nstat -w /a\ncreate /b\nset /a x\ncreate /c\n",
			[]int32{jute.OpCreate, jute.OpCreate, jute.OpSetData, jute.OpCreate}},
		{"long lines", strings.Repeat("create -s /n "+strings.Repeat("x", 100<<10)+"\n", 3) + "create /z\n",
			[]int32{jute.OpMulti, jute.OpMulti}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var shown []scriptResult
			for _, window := range []int{1, 64} {
				p := zktest.NewProxy(t, zktest.Sandbox(t, sandbox.Options{}).Addr())
				got := runScript(t, p.Addr(), c.script, exactConfig(window)).normalized(p.Addr())
				got.out = times.ReplaceAllString(got.out, "TIME")
				shown = append(shown, got)
				writes := slices.DeleteFunc(p.Requests(), func(op int32) bool {
					return !slices.Contains([]int32{jute.OpMulti, jute.OpCreate, jute.OpSetData, jute.OpDelete}, op)
				})
				if window > 1 && !slices.Equal(writes, c.requests) {
					t.Errorf("the requests are %d, not %d", writes, c.requests)
				}
			}
			if shown[0] != shown[1] {
				t.Error(cmp.Diff(shown[0].String(), shown[1].String()))
			}
		})
	}
}

// After a connection loss at any point, the report on each line is true.
func TestCutExact(t *testing.T) {
	t.Parallel()
	const lines, bad = 230, 150
	box := zktest.Sandbox(t, sandbox.Options{})
	client := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 30 * time.Second})
	for i, cut := range []func(p *zktest.Proxy) <-chan struct{}{
		func(p *zktest.Proxy) <-chan struct{} { return p.CutBeforeSkipping(jute.OpMulti, 0) },
		func(p *zktest.Proxy) <-chan struct{} { return p.CutAfterSkipping(jute.OpMulti, 0) },
		func(p *zktest.Proxy) <-chan struct{} { return p.CutBeforeSkipping(jute.OpMulti, 1) },
		func(p *zktest.Proxy) <-chan struct{} { return p.CutAfterSkipping(jute.OpMulti, 1) },
		func(p *zktest.Proxy) <-chan struct{} { return p.CutBeforeSkipping(jute.OpMulti, 2) }, // the multi that repeats the lines before the bad one
		func(p *zktest.Proxy) <-chan struct{} { return p.CutAfterSkipping(jute.OpMulti, 2) },
		func(p *zktest.Proxy) <-chan struct{} { return p.CutBeforeRequest(jute.OpCreate) }, // the bad line, which is sent alone
		func(p *zktest.Proxy) <-chan struct{} { return p.CutAfterRequest(jute.OpCreate) },
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			root := fmt.Sprintf("/k%d", i)
			zktest.Must(t, zkconn.Exec(zktest.Within(t), client, zkconn.Create(root, nil, zkconn.OpenACL(), zkconn.CreateMode{})))
			p := zktest.NewProxy(t, box.Addr())
			done := cut(p)
			got := runScript(t, p.Addr()+root, createScript(lines, bad), exactConfig(64))
			<-done
			list, err := zkconn.Do(zktest.Within(t), client, zkconn.List(root))
			zktest.Must(t, err)
			_, wrong := checkCut(got, func(line int) bool { return slices.Contains(list.Names, fmt.Sprintf("n%03d", line)) }, lines, true)
			if len(wrong) > 0 {
				t.Errorf("%s\n%s\n%s", strings.Join(wrong, "\n"), got, list.Names)
			}
		})
	}
}

// If the user waits for the answer to a line, zksh does not delay the line to send it together
// with others.
func TestExactCoprocess(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	session, err := zkconn.Open(zkconn.Config{Servers: box.Addr(), Timeout: 30 * time.Second})
	zktest.Must(t, err)
	lines, ask := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan int, 1)
	cfg := exactConfig(64)
	cfg.Session, cfg.Commands, cfg.Format = session, [][]*commands.Command{commands.All()}, "text"
	cfg.Out, cfg.Err = shell.Output{W: out}, shell.Output{W: io.Discard}
	go func() { // ends when lines is closed
		ended <- shell.New(cfg).RunLines(t.Context(), "script", lines)
		out.Close()
	}()
	answer := bufio.NewReader(answers)
	for i := range 5 {
		// Neither a comment nor an incomplete next line delays the answer.
		fmt.Fprintf(ask, "create /n%d\r\n# remark\r\ncrea", i)
		if got, err := answer.ReadString('\n'); err != nil || got != fmt.Sprintf("Created /n%d\n", i) {
			t.Fatalf("%q, %v", got, err)
		}
		fmt.Fprintf(ask, "te /m%d\n", i)
		if got, err := answer.ReadString('\n'); err != nil || got != fmt.Sprintf("Created /m%d\n", i) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	ask.Close()
	if status := <-ended; status != 0 {
		t.Errorf("status %d", status)
	}
}

// After Ctrl-C, zksh names the lines that may have taken effect and sends nothing more.
func TestInterruptedExact(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	p := zktest.NewProxy(t, box.Addr())
	d := openDialogue(t, p.Addr(), exactConfig(64))
	there := func(name string) func() bool {
		return func() bool { return strings.Contains(runAt(t, box.Addr(), "ls", "/"), name) }
	}
	fmt.Fprintln(d, "create /first")
	d.until(t, "Created /first\n")
	p.HoldReplies(true)
	fmt.Fprint(d, createScript(150, 0))
	zktest.Eventually(t, "a hundred are done", there("n100"))
	d.interrupt()
	got := <-d.ended
	p.HoldReplies(false)
	want := scriptResult{"Created /first\n", "script:2-101: interrupted: all lines before line 2 are done; lines 2 to 101 may also be done, in order and" +
		" without gaps; no later line had been sent\n", commands.StatusInterrupted}
	if got.err = withoutCloseTimeout(got.err); got != want || there("n101")() {
		t.Error(got)
	}
}

// With -e, a script prints the same whether zksh sends its writes one by one or together.
func TestExactAgrees(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		script := drawScript(rt)
		enforce := rapid.Bool().Draw(rt, "enforce")
		run := func(script string, cfg shell.Config) scriptResult {
			s := sandbox.New(sandbox.Options{Now: func() time.Time { return clock }, EnforceQuota: enforce})
			addr, err := s.Listen("127.0.0.1:0")
			zktest.Must(rt, err)
			defer s.Close()
			return runScript(rt, addr.String(), script, cfg).normalized(addr.String())
		}
		script = withoutFailures(rt, script, run(script, shell.Config{Window: 64}))
		alone := run(script, shell.Config{Window: 1, StopAtError: true})
		if got := run(script, shell.Config{Window: 64, StopAtError: true}); got != alone {
			rt.Fatalf("one by one and together:\n%s", cmp.Diff(alone.String(), got.String()))
		}
	})
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
