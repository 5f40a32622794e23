//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// traceLine matches a line of a trace: the sign, the operation and the rest.
var traceLine = regexp.MustCompile(`^ *\d+\.\d{6} ([><*!]) (\S+) +(.*)$`)

// millis matches the time from a request to its reply.
var millis = regexp.MustCompile(`^\d+\.\d{3}ms$`)

// contenderID matches the random part of the name of a contender's znode.
var contenderID = regexp.MustCompile(`_c_\S+?-(lock-|__READ__)`)

// story returns what a trace says, without the parts that differ from run to run. Each request is
// joined with its reply, because the reply to one request can come before the next request is sent.
// It omits the beginning and the end of the session, and the two requests with which zksh finds out
// the product of the servers.
func story(t *testing.T, trace string) (lines []string) {
	t.Helper()
	var open []int // indexes in lines of the requests without a reply
	for line := range strings.Lines(trace) {
		m := traceLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			t.Fatalf("not a line of a trace: %q", line)
		}
		sign, op := m[1], m[2]
		var words []string
		for word := range strings.FieldsSeq(m[3]) {
			switch key, _, _ := strings.Cut(word, "="); {
			case slices.Contains([]string{"xid", "zxid", "bytes", "session"}, key), millis.MatchString(word):
			default:
				words = append(words, word)
			}
		}
		text := contenderID.ReplaceAllString(op+" "+strings.Join(words, " "), "_c_…-$1")
		switch {
		case slices.Contains([]string{"connect", "closeSession", "disconnected"}, op), strings.Contains(text, "/zookeeper/config"), strings.Contains(text, "/keeper/api_version"):
		case sign == ">":
			open = append(open, len(lines))
			lines = append(lines, text)
		case sign == "<":
			i := slices.IndexFunc(open, func(at int) bool { return strings.HasPrefix(lines[at], op+" ") })
			if i < 0 {
				t.Fatalf("a reply without a request: %q", line)
			}
			lines[open[i]] += " -> " + text
			open = slices.Delete(open, i, i+1)
		default:
			lines = append(lines, sign+" "+text)
		}
	}
	isRead := func(line string) bool {
		return strings.HasPrefix(line, "exists ") || strings.HasPrefix(line, "getData ")
	}
	for from := 0; from < len(lines); from++ { // the fence and the watch of the znode send reads at the same time
		to := from
		for to < len(lines) && isRead(lines[to]) {
			to++
		}
		slices.Sort(lines[from:to])
		from = max(from, to-1)
	}
	return lines
}

// stories contains the scenes of which the manual shows the trace. Each returns the trace of one
// client.
var stories = map[string]func(b *traceStage) string{
	"lock": func(b *traceStage) string {
		return b.traced("lock", "/jobs/backup", "--", "sleep", "1")
	},
	"readers": func(b *traceStage) string {
		b.other("rlock")
		return b.traced("rlock", "/jobs/backup", "--", "sleep", "1")
	},
	"handover": func(b *traceStage) string {
		holder := b.other("lock")
		return b.during("lock-0000000000", func() { b.finish(holder) }, "lock", "/jobs/backup", "--", "sleep", "1")
	},
	"lost": func(b *traceStage) string {
		return b.during("lock-0000000000", func() { runAt(b.t, b.server, "deleteall", "/jobs/backup") }, "lock", "/jobs/backup", "--", "sleep", "600")
	},
}

// A traceStage is a server on which clients compete for the lock /jobs/backup.
type traceStage struct {
	t      *testing.T
	server string
	file   string
}

// other acquires the lock in another client, which holds it until finish is called.
func (b *traceStage) other(command string) *exec.Cmd {
	cmd := exec.Command("zksh", "-q", "-server", b.server, command, "/jobs/backup", "--", "sh", "-c", "read x")
	in, err := cmd.StdinPipe()
	zktest.Must(b.t, err)
	zktest.Must(b.t, cmd.Start())
	b.t.Cleanup(func() { in.Close(); _ = cmd.Wait() }) // finish may have waited already
	b.await(1)
	return cmd
}

// finish makes the client that other has started release its lock.
func (b *traceStage) finish(cmd *exec.Cmd) { zktest.Must(b.t, cmd.Process.Signal(os.Interrupt)) }

// await waits until the queue has the given number of contenders.
func (b *traceStage) await(n int) {
	zktest.Eventually(b.t, fmt.Sprint(n, " contenders"), func() bool {
		out, _ := exec.Command("zksh", "-server", b.server, "getAllChildrenNumber", "/jobs/backup").Output()
		return strings.TrimSpace(string(out)) == fmt.Sprint(n)
	})
}

// traced runs zksh with --trace, and returns the trace.
func (b *traceStage) traced(args ...string) string { return b.during("", nil, args...) }

// during is like traced, and calls do when the client watches a znode whose name contains watched.
func (b *traceStage) during(watched string, do func(), args ...string) string {
	cmd := exec.CommandContext(zktest.Within(b.t), "zksh", append([]string{"-q", "-server", b.server, "--trace", b.file}, args...)...)
	zktest.Must(b.t, cmd.Start())
	if do != nil {
		watching := regexp.MustCompile(`< getData .*` + watched + `  OK`)
		zktest.Eventually(b.t, "the client watches", func() bool {
			text, _ := os.ReadFile(b.file)
			return watching.Match(text)
		})
		do()
	}
	_ = cmd.Wait() // a lost lock is a failure
	text, err := os.ReadFile(b.file)
	zktest.Must(b.t, err)
	return string(text)
}

// The traces in the manual are those of zksh, on the sandbox and on a real server.
func TestTraceStories(t *testing.T) {
	t.Parallel()
	shown := map[string]string{}
	eachDoc(t, `trace \w+`, func(t *testing.T, blocks []fenced) {
		for _, b := range blocks {
			shown[strings.TrimPrefix(b.info, "trace ")] = b.text
		}
	})
	for name, play := range stories {
		for server, addr := range map[string]string{"sandbox": zktest.Sandbox(t, sandbox.Options{}).Addr(), "ZooKeeper": zktest.Start(t).Addr()} {
			t.Run(name+"/"+server, func(t *testing.T) {
				_ = exec.Command("zksh", "-server", addr, "deleteall", "/jobs").Run() // fails in the first scene
				runAt(t, addr, "create", "/jobs")
				trace := play(&traceStage{t, addr, filepath.Join(t.TempDir(), "trace")})
				if diff := cmp.Diff(story(t, shown[name]), story(t, trace)); diff != "" {
					t.Errorf("the manual is different (-want +got):\n%s\n%s", diff, trace)
				}
			})
		}
	}
	if len(shown) != len(stories) {
		t.Errorf("the manual shows %d traces, and there are %d scenes", len(shown), len(stories))
	}
}

// At the prompt, the lines of a trace appear above the line that is being typed.
func TestTraceAtThePrompt(t *testing.T) {
	t.Parallel()
	s := openScreen(t, 100, 30)
	s.line("create /配置 1")
	s.want(` 1\]$`)
	s.line("trace on")
	s.want(` 2\]$`)
	s.line("get -w /配置")
	s.want(`(?s)< getData +/配置 +OK [0-9.]+ms[^\n]*\n1\n`)
	s.line("get /none")
	s.want(`(?s)< getData +/none +NoNode [0-9.]+ms[^\n]*\n[^\n]*/none`)
	s.text("get /配")
	s.want(`4\] get /配$`)
	oneShot(t, s.server, "set", "/配置", "2")
	s.want(`(?s)\* NodeDataChanged +/配置.*4\] get /配$`)
	s.keys("C-c")
	s.line("trace off")
	s.want(`trace off\n\[zk`)
}
