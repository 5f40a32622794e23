//go:build unix

package e2e

import (
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
	"github.com/zksh/zksh/shell"
)

var eventTimes = regexp.MustCompile(`"time":"[^"]*"`)

// A script prints the same with every size of the window.
func TestWindowsAgree(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(rt *rapid.T) {
		script := drawScript(rt)
		format := rapid.SampledFrom([]render.Format{render.Text, render.Text, render.JSON, render.Table}).Draw(rt, "format")
		var alone scriptResult
		for _, window := range []int{1, 2, 64, 256} {
			// Each run has a fresh server.
			s := sandbox.New(sandbox.Options{Now: func() time.Time { return clock }, EnforceQuota: true, MaxTimeout: time.Minute})
			addr, err := s.Listen("127.0.0.1:0")
			zktest.Must(rt, err)
			got := runScript(rt, addr.String(), script, shell.Config{Window: window, Format: format})
			_ = s.Close()
			got = got.normalized(addr.String())
			if window == 1 {
				alone = got
			} else if got != alone {
				rt.Fatalf("window 1 and %d:\n%s", window, cmp.Diff(alone.String(), got.String()))
			}
		}
		if format == render.JSON {
			answeredOnce(rt, script, alone)
		}
	})
}

// answeredOnce checks that each line has one answer, up to a lock that could not be acquired,
// which ends the script. A transaction that is open at the end has an answer of its own.
func answeredOnce(t rapid.TB, script string, got scriptResult) {
	lines := 0
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines++
		}
	}
	list := answers(t, got.out)
	if n := len(list) - 1; n >= 0 && strings.HasPrefix(fmt.Sprint(field(list[n], "error")), "the transaction that began on line") {
		list = list[:n] // redo can begin a transaction that nothing ends
	}
	ended := len(list) > 0 && len(list) < lines && field(list[len(list)-1], "error") != nil &&
		strings.HasSuffix(fmt.Sprint(field(list[len(list)-1], "command")), "lock")
	if len(list) != lines && !ended {
		t.Fatalf("%d answers to %d lines:\n%s%s", len(list), lines, script, got)
	}
}

// A script prints the same with every size of the window on a real server too, which processes
// requests while others are in flight.
func TestWindowsAgreeOnServer(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t, zktest.Heap(128), zktest.EnforceQuota())
	folders := 0
	rapid.Check(t, func(rt *rapid.T) {
		script := drawScript(rt)
		run := func(cfg shell.Config) scriptResult {
			folders++
			root := fmt.Sprintf("/w%d", folders)
			runAt(t, server.Addr(), "create", root)
			return runScript(rt, server.Addr()+root, script, cfg).normalized(root)
		}
		alone, got := run(shell.Config{Window: 1}), run(shell.Config{Window: 64})
		if got != alone {
			rt.Fatalf("window 1 and 64:\n%s", cmp.Diff(alone.String(), got.String()))
		}
		script = withoutFailures(rt, script, alone)
		alone, got = run(shell.Config{Window: 1, StopAtError: true}), run(shell.Config{Window: 64, StopAtError: true})
		if got != alone {
			rt.Fatalf("with -e, window 1 and 64:\n%s", cmp.Diff(alone.String(), got.String()))
		}
	})
}

var (
	numbers = regexp.MustCompile(`0x[0-9a-f]+`)
	times   = regexp.MustCompile(`(Mon|Tue|Wed|Thu|Fri|Sat|Sun) .* \d{4}`)
	guids   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	// lostLocks matches the report of a lock that was released with its session, which appears
	// at an unpredictable time.
	lostLocks = regexp.MustCompile(`lock /\S+: released, because its session was closed\n`)
	waits     = regexp.MustCompile(`((?:waited"?[=:])|NUMBER  )\d+\.\d+`) // in a table, the time follows the token
)

// normalized replaces the parts that differ from run to run.
func (p scriptResult) normalized(place string) scriptResult {
	for _, s := range []*string{&p.out, &p.err} {
		*s = regexp.MustCompile(regexp.QuoteMeta(place)+`(\d{10})?`).ReplaceAllString(*s, "PLACE") // create -s / appends a counter to it
		*s = guids.ReplaceAllString(*s, "GUID")
		*s = lostLocks.ReplaceAllString(*s, "")
		*s = numbers.ReplaceAllString(*s, "NUMBER") // the zxid of a session's end depends on timing
		*s = eventTimes.ReplaceAllString(*s, `"time":"TIME"`)
		*s = waits.ReplaceAllString(*s, "${1}0")
		if strings.HasPrefix(place, "/") {
			*s = times.ReplaceAllString(*s, "TIME")
		}
	}
	return p
}

func (p scriptResult) String() string {
	return fmt.Sprintf("status %d\n--- output\n%s--- errors\n%s", p.status, p.out, p.err)
}

// drawScript draws a script of all kinds of commands: most lines need one request, some need
// several, and some are invalid. The script does not touch the znodes of its locks, because the
// loss of a lock is reported at an unpredictable time.
func drawScript(t *rapid.T) string {
	line := rapid.Custom(drawLine)
	return strings.Join(rapid.SliceOfN(line, 1, 200).Draw(t, "lines"), "\n") + "\n"
}

var paths = []string{"/a", "/a", "/b", "/a/b", "/a/b", "/a/c", "/b/c", "/a/b/c", "/", "/none/x", "a", "/a/", "/s-0000000000"}

func drawLine(t *rapid.T) string {
	path := rapid.SampledFrom(paths).Draw(t, "path")
	data := rapid.SampledFrom([]string{"x", `"two words"`, `''`, "中文", "12345678901234567890"}).Draw(t, "data")
	form := rapid.SampledFrom([]string{
		"create PATH", "create PATH DATA", "create PATH DATA", "create PATH DATA", "create -s PATH DATA", "create -e PATH DATA", "create -s -e PATH- DATA",
		"set PATH DATA", "set PATH DATA", "set -s PATH DATA", "set -v 1 PATH DATA", "set PATH", "delete PATH", "delete PATH", "delete -v 1 PATH", "delete PATH 0",
		"get PATH", "get PATH", "get -s PATH", "get -w PATH", "get -b PATH", "get -j PATH", "get PATH watch", "ls PATH", "ls -s PATH", "ls -w PATH", "ls2 PATH",
		"stat PATH", "stat -w PATH", "exists PATH", "getAcl PATH", "getAcl -s PATH", "sync PATH", "config",
		"create -p PATH DATA", "create -c PATH", "create -t 5000 PATH DATA", "ls -R PATH", "deleteall PATH", "rmr PATH", "getAllChildrenNumber PATH",
		"setAcl PATH world:anyone:r", "setAcl PATH world:anyone:cdrwa", "setAcl -R PATH world:anyone:cdrwa", "create PATH DATA world:anyone:cdra",
		"addWatch PATH", "addWatch -m PERSISTENT PATH", "removewatches PATH", "removewatches PATH -d", "getEphemerals", "whoami",
		"setquota -n 2 PATH", "setquota -N 3 PATH", "setquota -B 30 PATH", "listquota PATH", "delquota PATH",
		"lock /l", "unlock /l", "rlock /l", "rlock /m", "unlock /m", "addauth digest u:p", "connect", "close",
		"echo DATA", "wait -w 0 PATH", "wait --gone -w 0 PATH", "version", "history", "redo 1", "redo 2", "redo 5", "printwatches on", "printwatches off", "help ls", "get --help",
		"begin\ncreate PATH DATA\ncreate -s PATH DATA\ncommit", "begin\ncheck PATH 0\nset -s PATH DATA\ncommit", "begin\nset PATH DATA\nget PATH\ncommit",
		"stat -w PATH\ncreate -s /w DATA\nset PATH DATA", "begin\ndelete PATH\nabort", "begin\ncreate -e PATH- DATA\ncommit", "check PATH 0", "commit",
		"", "# remark", "nonsense", "get", "ls -Q PATH", "create PATH DATA DATA DATA DATA", `get "PATH" extra`, "set -v x PATH DATA",
	}).Draw(t, "form")
	return strings.NewReplacer("PATH", path, "DATA", data).Replace(form)
}

var everyCut = flag.Bool("cuts", false, "TestCutWindow cuts a window at each of its lines, not only at every ninth; "+
	"set by make full, which runs it without the race detector, because that makes it five times as slow")

// After a connection loss with many lines in flight, nobody knows whether some of them took
// effect. The report on each line is true, wherever the connection is lost.
func TestCutWindow(t *testing.T) {
	t.Parallel()
	const lines = 200
	step := 9
	if *everyCut {
		step = 1
	}
	var script strings.Builder
	for i := range lines {
		fmt.Fprintf(&script, "create /n%03d\n", i+1)
	}
	for _, c := range []struct {
		name string
		cut  func(p *zktest.Proxy, skip int) <-chan struct{}
	}{
		{"BeforeRequest", func(p *zktest.Proxy, skip int) <-chan struct{} { return p.CutBeforeSkipping(jute.OpCreate, skip) }},
		{"BeforeAnswer", func(p *zktest.Proxy, skip int) <-chan struct{} { return p.CutAfterSkipping(jute.OpCreate, skip) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			box := zktest.Sandbox(t, sandbox.Options{})
			client := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 30 * time.Second})
			var cuts, together atomic.Int32
			var runs sync.WaitGroup
			for first := range 20 { // in parallel, because each run mostly waits for its reconnect
				runs.Go(func() {
					for k := first * step; k < lines && !t.Failed(); k += 20 * step {
						cuts.Add(1)
						root := fmt.Sprintf("/k%d", k)
						zktest.Check(t, zkconn.Exec(t.Context(), client, zkconn.Create(root, nil, zkconn.OpenACL(), zkconn.CreateMode{})))
						p := zktest.NewProxy(t, box.Addr())
						cut := c.cut(p, k)
						got := runScript(t, p.Addr()+root, script.String(), shell.Config{Window: 64})
						<-cut
						list, err := zkconn.Do(t.Context(), client, zkconn.List(root))
						zktest.Check(t, err)
						several, wrong := checkCut(got, func(line int) bool { return slices.Contains(list.Names, fmt.Sprintf("n%03d", line)) }, lines, false)
						if several {
							together.Add(1)
						}
						if len(wrong) > 0 {
							t.Errorf("cut at %d: %s\n%s\n%s", k, strings.Join(wrong, "\n"), got, list.Names)
						}
					}
				})
			}
			runs.Wait()
			if n, of := together.Load(), cuts.Load(); n < of/2 || of < lines/int32(step) {
				t.Errorf("only %d of %d cuts met more than one line: this proves little", n, of)
			}
		})
	}
}

var (
	cutOne  = regexp.MustCompile(`^script:(\d+): create: .* \(the request was (not sent|sent)\b`)
	cutMany = regexp.MustCompile(`^script:(\d+)-(\d+): the connection was lost: all lines before line (\d+) are done` +
		`(?:; lines (\d+) to (\d+) may also be done, in order and without gaps)?(?:; no later line had been sent)?` +
		`(?:; the lines after that, up to line (\d+), were not sent)?$`)
)

// checkCut compares the report of a script of creates with the znodes that exist. It returns
// whether several lines were cut off together, and a description of each contradiction. A script
// that stops at its first error must have done nothing after the lines that it names.
func checkCut(got scriptResult, there func(line int) bool, lines int, stops bool) (together bool, wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	const done, open, undone = "done", "may be done", "not done"
	said, last := make([]string, lines+1), 0
	for i := range said {
		said[i] = done
	}
	mark := func(from, to, what string) {
		a, _ := strconv.Atoi(from)
		b, _ := strconv.Atoi(to)
		for i := a; i > 0 && i <= b; i++ {
			said[i], last = what, max(last, i)
		}
	}
	if got.status != commands.StatusNoServer {
		fail("status %d", got.status)
	}
	for text := range strings.Lines(got.err) {
		text = strings.TrimSuffix(text, "\n")
		if m := cutOne.FindStringSubmatch(text); m != nil {
			mark(m[1], m[1], map[string]string{"not sent": undone, "sent": open}[m[2]])
		} else if m := cutMany.FindStringSubmatch(text); m != nil {
			together = true
			mark(m[1], m[2], undone)
			mark(m[4], m[5], open)
		} else {
			fail("said: %s", text)
		}
	}
	if stops {
		mark(strconv.Itoa(last+1), strconv.Itoa(lines), undone)
	}
	gap := false
	for i := 1; i <= lines; i++ {
		switch is := there(i); {
		case said[i] == done && !is, said[i] == undone && is:
			fail("line %d is said to be %s", i, said[i])
		case said[i] == open && is && gap:
			fail("line %d is done, and one before it is not", i)
		case said[i] == open:
			gap = gap || !is
		}
		if answer := fmt.Sprintf("Created /n%03d\n", i); strings.Contains(got.out, answer) != (said[i] == done) {
			fail("line %d is said to be %s; its answer is shown: %t", i, said[i], said[i] != done)
		}
	}
	return together, wrong
}

// After Ctrl-C, zksh sends nothing more and names the lines that may have taken effect.
func TestInterruptedWindow(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	p := zktest.NewProxy(t, box.Addr())
	d := openDialogue(t, p.Addr(), shell.Config{Window: 64})
	for i := range 200 {
		fmt.Fprintf(d, "create /n%d\n", i+1)
	}
	d.until(t, "Created /n200\n")
	p.HoldReplies(true)
	for i := range 64 {
		fmt.Fprintf(d, "create /m%d\n", i+1)
	}
	zktest.Eventually(t, "64 are under way", func() bool {
		return strings.Contains(runAt(t, box.Addr(), "ls", "/"), "m64")
	})
	d.interrupt()
	got := <-d.ended
	p.HoldReplies(false)
	const want = "script:201-264: interrupted: all lines before line 201 are done; lines 201 to 264 may also be done, in order and" +
		" without gaps; no later line had been sent\n"
	if withoutCloseTimeout(got.err) != want || got.status != commands.StatusInterrupted {
		t.Error(got)
	}
}

// zksh buffers a limited amount of answers: if the reader of its output is slow, it sends more
// slowly, whatever the window.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	client := zksession.Open(t, zkconn.Config{Servers: box.Addr(), Timeout: 30 * time.Second})
	const size, lines = 500 << 10, 200
	zktest.Must(t, zkconn.Exec(t.Context(), client, zkconn.Create("/big", make([]byte, size), zkconn.OpenACL(), zkconn.CreateMode{})))
	p := zktest.NewProxy(t, box.Addr())
	var in, out *os.File // the ends of the pipe that is the shell's standard output
	var err error
	if in, out, err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	session, err := zkconn.Open(zkconn.Config{Servers: p.Addr(), Timeout: 30 * time.Second})
	zktest.Must(t, err)
	ended := make(chan int, 1)
	go func() {
		defer out.Close()
		ended <- shell.New(shell.Config{
			Session: session, Commands: [][]*commands.Command{commands.All()}, Format: render.Text, Window: 256,
			Out: shell.Output{W: out}, Err: shell.Output{W: io.Discard},
		}).RunLines(t.Context(), "script", strings.NewReader(strings.Repeat("get /big\n", lines)))
	}()
	gets := 0
	zktest.Eventually(t, "no more is sent", func() bool {
		time.Sleep(100 * time.Millisecond)
		more := len(slices.DeleteFunc(p.Requests(), func(op int32) bool { return op != jute.OpGetData }))
		gets += more
		return gets > 0 && more == 0
	})
	if gets > 4<<20/size+1 {
		t.Errorf("%d answers of %d bytes have been asked for, and none can be printed", gets, size)
	}
	n, err := io.Copy(io.Discard, in)
	if status := <-ended; status != 0 || err != nil || n != lines*(size+1) {
		t.Errorf("status %d, %v, %d bytes", status, err, n)
	}
}
