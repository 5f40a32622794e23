//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell"
	"github.com/zksh/zksh/shell/exit"
)

// answers returns the JSON values in a script's output, without events.
func answers(t rapid.TB, out string) (list []any) {
	t.Helper()
	for line := range strings.Lines(out) {
		var v any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if o, ok := v.(map[string]any); !ok || o["event"] == nil {
			list = append(list, v)
		}
	}
	return list
}

// field returns the named field of an answer, or nil if it has no such field.
func field(answer any, name string) any {
	o, _ := answer.(map[string]any)
	return o[name]
}

// succeedingLines lists, by command, lines that succeed, for commands whose example does not
// succeed by itself.
var succeedingLines = map[string][]string{
	"setquota": {"setquota -n 100 /q"}, "listquota": {"listquota /q"}, "delquota": {"delquota /q"},
	"removewatches": {"get -w /app", "removewatches /app"}, "connect": {"connect"}, "redo": {"redo 1"},
	"set": {"set /app/config threads=4"}, "delete": {"delete /app/config"}, "deleteall": {"create /app/old", "deleteall /app/old"},
	"rmr": {"create /app/old", "rmr /app/old"}, "unlock": {"lock /locks/backup", "unlock /locks/backup"},
	"session": {"session"}, "wait": {"wait -w 30s /app"}, "lockdemo": {"lockdemo local -n 2"}, "exists": {"exists /app"},
	"source": {"source /dev/null"},
	"begin":  {"begin", "abort"}, "check": {"begin", "check /app -1", "abort"}, "abort": {"begin", "abort"},
	"commit": {"begin", "create /app/both", "delete /app/both", "commit"},
	"wlock":  {"wlock /locks/w"}, "rlock": {"rlock /locks/r"}, "getEphemerals": {"getEphemerals"}, "setAcl": {"setAcl /app world:anyone:cdrwa"},
	"ls": {"ls /app", "ls -R /", "ls -? -R /"}, "du": {"du /", "du -top 2 /"},
	"export": {"export /app"},
	"cp":     {"cp -R /app /copied"}, "mv": {"create /app/from", "mv /app/from /to"}, "diff": {"diff /app /app"}, "mirror": {"mirror /app /mirrored"},
	"find": {"find /locks -ephemeral", "find / -name config -- get {}", "find / -name app -- ls -R {}", "find / -name none -- get {}"},
}

// unrunnable lists the commands that cannot succeed in these tests, with the reason.
var unrunnable = map[string]string{
	"reconfig": "the sandbox is alone", "sandbox": "this shell has none", "revoke": "nobody holds a lock",
	"edit": "nobody has an editor", "tutorial": "nobody is at the keyboard", "undo": "nothing is kept",
	"import": "there is no dump; its script has one", "log": "there is no log; its script has one",
	"digest": "a script contains no password; its script runs it alone",
	"watch":  "nothing changes; TestWatchIsAnswered has it",
}

// Each line gets exactly one JSON value as its answer, whether it succeeds or fails. The script
// runs each command once in a form that succeeds and in several that fail.
func TestLineIsAnswered(t *testing.T) {
	t.Parallel()
	for _, window := range []int{1, 64} {
		var script []string
		say := func(lines ...string) { script = append(script, lines...) }
		say("create /app", "create /app/config", "create /locks", "create /q")
		var good []int // numbers of the lines that must succeed
		for _, c := range registry().All() {
			if c.Name == "quit" || c.Name == "close" {
				continue
			}
			say("echo next", c.Name+" --nonsense")
			if unrunnable[c.Name] == "" {
				lines := succeedingLines[c.Name]
				if lines == nil {
					lines = []string{c.Examples[0]}
				}
				for _, line := range lines {
					say(line)
					good = append(good, len(script))
				}
			}
		}
		say("close")
		closed := len(script)
		for _, c := range registry().All() {
			if !c.Effect.Has(commands.Offline) {
				say(c.Examples[0])
			}
		}
		say("connect", "quit")
		box := zktest.Sandbox(t, sandbox.Options{})
		got := runScript(t, box.Addr(), strings.Join(script, "\n")+"\nls /\n", shell.Config{Window: window, Format: render.JSON, KeepGoing: true})
		list := answers(t, got.out)
		if len(list) != len(script) {
			t.Fatalf("window %d: %d answers to %d lines\n%s", window, len(list), len(script), got.out[max(0, len(got.out)-2000):])
		}
		for i, answer := range list {
			line := i + 1
			failed := field(answer, "error") != nil
			switch {
			case strings.HasSuffix(script[i], " --nonsense") && field(answer, "code") != "Usage" && !strings.HasPrefix(script[i], "echo"),
				line > closed && line < len(script)-1 && field(answer, "code") != "NotConnected":
				t.Errorf("window %d: %s: %v", window, script[i], answer)
			case failed && field(answer, "line") != float64(line):
				t.Errorf("window %d: line %d says %v", window, line, answer)
			}
		}
		for _, line := range good {
			if field(list[line-1], "error") != nil {
				t.Errorf("window %d: %s: %v", window, script[line-1], list[line-1])
			}
		}
		if strings.Count(got.err, "\n") < strings.Count(got.out, `{"error":`) {
			t.Errorf("window %d: standard error lacks what failed:\n%s", window, got.err)
		}
	}
}

// A failed line answers with an error object that programs can evaluate.
func TestErrorCodes(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	script := []struct{ line, want string }{
		{"get /nope", `{"error":"Node does not exist: /nope","code":"NoNode","status":1,"command":"get","line":1,"path":"/nope"}`},
		{"create /a", `{"created":"/a"}`},
		{"create /a/b", `{"created":"/a/b"}`},
		{"create /a", `{"error":"Node already exists: /a","code":"NodeExists","status":1,"command":"create","line":4,"path":"/a"}`},
		{"delete /a", `{"error":"Node not empty: /a","code":"NotEmpty","status":1,"command":"delete","line":5,"path":"/a"}`},
		{"set -v 7 /a x", `{"error":"version No is not valid : /a (expected dataVersion 7)","code":"BadVersion","status":1,"command":"set","line":6,"path":"/a"}`},
		{"removewatches /a", `{"error":"KeeperErrorCode = No such watcher for /a","code":"NoWatcher","status":1,"command":"removewatches","line":7,"path":"/a"}`},
		{"gte /a", `{"error":"unknown command \"gte\"; did you mean get? (to list all commands, run: help all)","code":"UnknownCommand","status":127,"command":"gte","line":8}`},
		{"version 1", `{"error":"unexpected word \"1\"; quote a value that contains spaces (see: zksh help version)","code":"Usage","status":2,"command":"version","line":9}`},
		{"exists /nope", `{"path":"/nope","exists":false}`},
		{"lock -w 5 /l -- sh -c 'exit 3'", `{"done":"lock","status":3}`},
		{"lock /l -- /nosuch", `{"error":"cannot run /nosuch: no such file or directory","code":"CannotRun","status":127,"command":"lock","line":12}`},
		{"wait -w 0 /nope", `{"error":"timed out waiting for /nope: the znode does not exist","code":"TimeUp","status":75,"command":"wait","line":13}`},
		{"locks -q /l", `{"done":"locks","status":0}`},
		{`echo "half of it" done`, `{"echo":["half of it","done"]}`},
		{"ls -? /a", `[{"usage":"ls [-s] [-w] [-R] path"},{"path":"/a","children":["b"]}]`},
		{"delete /a/b", `{"done":"delete","path":"/a/b"}`},
		{"close", `{"done":"close","server":"SERVER","state":"CLOSED"}`},
		{"ls /", `{"error":"Not connected","code":"NotConnected","status":69,"command":"ls","line":19}`},
		{"exit", `{"done":"exit","status":0}`},
	}
	var lines []string
	for _, l := range script {
		lines = append(lines, l.line)
	}
	p := openPipeline(t, "-server", box.Addr(), "-o", "json", "-f", "-")
	if _, err := io.WriteString(p.in, "\n# a remark\n"+strings.Join(lines, "\n")); err != nil {
		t.Fatal(err)
	}
	p.in.Close()
	out, err := io.ReadAll(p.out)
	zktest.Must(t, err)
	wantExit(t, p.cmd, 1)
	got := scriptResult{string(out), p.errs.String(), 1}
	have := strings.Split(strings.ReplaceAll(strings.TrimSpace(got.out), box.Addr(), "SERVER"), "\n")
	for i, l := range script {
		if want := strings.Replace(l.want, fmt.Sprintf(`"line":%d`, i+1), fmt.Sprintf(`"line":%d`, i+3), 1); i >= len(have) || have[i] != want {
			t.Fatalf("%s:\n%s\nwanted: %s", l.line, got, want)
		}
	}
	if len(have) != len(script) {
		t.Error(got)
	}
	for _, s := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"get", "/nope"}, 1, `{"error":"Node does not exist: /nope","code":"NoNode","status":1,"command":"get","path":"/nope"}` + "\n"},
		{[]string{"quit"}, 0, `{"done":"quit","status":0}` + "\n"},
		{[]string{"nonsense"}, 127, `{"error":"unknown command \"nonsense\" (to list all commands, run: help all)","code":"UnknownCommand","status":127,"command":"nonsense"}` + "\n"},
	} {
		p := openPipeline(t, append([]string{"-server", box.Addr(), "-o", "json"}, s.args...)...)
		out, err := io.ReadAll(p.out)
		if err != nil || string(out) != s.want {
			t.Errorf("%v: %s%v", s.args, out, err)
		}
		wantExit(t, p.cmd, s.status)
	}
}

// Lines that a connection loss cuts off are reported together on standard error, and each has an
// answer of its own, which is true.
func TestCutLinesAreAnswered(t *testing.T) {
	t.Parallel()
	const lines = 60
	var script strings.Builder
	for i := range lines {
		fmt.Fprintf(&script, "create /n%02d\n", i+1)
	}
	for _, before := range []bool{true, false} {
		box := zktest.Sandbox(t, sandbox.Options{})
		p := zktest.NewProxy(t, box.Addr())
		cut := p.CutAfterSkipping
		if before {
			cut = p.CutBeforeSkipping
		}
		done := cut(jute.OpCreate, 20)
		got := runScript(t, p.Addr(), script.String(), shell.Config{Window: 64, Format: render.JSON})
		<-done
		list := answers(t, got.out)
		if len(list) != lines {
			t.Fatalf("%d answers\n%s", len(list), got)
		}
		there := runAt(t, box.Addr(), "ls", "/")
		lost := 0
		for i, answer := range list {
			is := strings.Contains(there, fmt.Sprintf("n%02d", i+1))
			switch code := field(answer, "code"); {
			case code == nil && is, code == "NotSent" && !is:
			case code == "ConnectionLoss":
				lost++
			default:
				t.Errorf("line %d is there: %v; it is said: %v", i+1, is, answer)
			}
		}
		if lost == 0 {
			t.Errorf("nothing was lost: this proves nothing\n%s", got)
		}
	}
}

// After Ctrl-C, the lines in flight are answered, and no later line.
func TestInterruptedLinesAreAnswered(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	p := zktest.NewProxy(t, box.Addr())
	d := openDialogue(t, p.Addr(), shell.Config{Window: 64, Format: render.JSON})
	for i := range 100 {
		fmt.Fprintf(d, "create /n%d\n", i+1)
	}
	d.until(t, `"/n100"`)
	p.HoldReplies(true)
	for i := range 5 {
		fmt.Fprintf(d, "create /m%d\n", i+1)
	}
	zktest.Eventually(t, "five are under way", func() bool { return strings.Contains(runAt(t, box.Addr(), "ls", "/"), "m5") })
	d.interrupt()
	got := <-d.ended
	p.HoldReplies(false)
	all := answers(t, got.out)
	if len(all) != 105 || field(all[99], "created") != "/n100" || field(all[104], "code") != "Interrupted" || field(all[104], "line") != 105.0 {
		t.Error(got)
	}
}

// The loss of a session or lock between two lines is an error of the next line. That line still
// has one answer, which contains the error and the line's own answer.
func TestLossBetweenLinesIsAnswered(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	p := openPipeline(t, "-server", box.Addr(), "-o", "json")
	p.ask(t, "create -e /mine", `{"created":"/mine"}`)
	expireSession(t, box, owner(t, box.Addr(), "/mine"))
	p.ask(t, "create /after", `{"error":"the session expired, and its watches and its ephemeral znodes /mine are gone; zksh continues in a new session",`+
		`"code":"SessionExpired","status":69,"command":"create","line":2,"answer":{"created":"/after"}}`)
	p.in.Close()
	wantExit(t, p.cmd, 69)

	p = openPipeline(t, "-server", box.Addr(), "-o", "json", "-timeout", "20000")
	if _, err := io.WriteString(p.in, "lock /l\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := p.out.ReadString('\n')
	node := fmt.Sprint(field(answers(t, answer)[0], "node"))
	if err != nil || !strings.HasPrefix(node, "/l/") {
		t.Fatalf("%s%v", answer, err)
	}
	runAt(t, box.Addr(), "delete", node)
	zktest.Eventually(t, "the loss is known", func() bool {
		_, err := io.WriteString(p.in, "locks\n")
		zktest.Must(t, err)
		answer, err = p.out.ReadString('\n')
		return err != nil || !strings.Contains(answer, `"state":"held"`)
	})
	if a := answers(t, answer); field(a[0], "code") != "LockLost" || field(a[0], "command") != "locks" {
		t.Error(answer)
	}
	wantExit(t, p.cmd, 74)
}

// Each error code is listed with its exit status.
func TestCodesAreListed(t *testing.T) {
	for _, err := range []error{
		fmt.Errorf("anything"), &commands.UsageError{Problem: "x"}, &zkconn.NoServerError{}, zkconn.ErrNotConnected, zkconn.AuthFailed,
		&zkconn.LostError{}, &zkconn.UnsentError{Cause: zkconn.ConnectionLoss}, zkconn.SessionExpired,
		&commands.StatusError{Status: commands.StatusLockLost, Err: io.EOF}, &commands.StatusError{Status: commands.StatusNotLocked, Err: io.EOF},
		&commands.StatusError{Status: commands.StatusTimeUp, Code: "TimeUp", Err: io.EOF}, &commands.StatusError{Status: commands.StatusUnconfirmed, Err: io.EOF},
		&commands.StatusError{Status: commands.StatusCannotRun, Err: io.EOF}, &commands.StatusError{Status: commands.StatusUnknown, Err: io.EOF},
		exit.SignalCause(os.Interrupt), context.Canceled, &zkconn.Error{Code: zkconn.NoNode}, &zkconn.Error{Code: zkconn.NotEmpty}, &zkconn.TooLargeError{},
	} {
		status, code := exit.Status(err), exit.Code(err)
		listed := false
		for _, s := range commands.Statuses {
			listed = listed || s.Status == status && strings.Contains(s.Codes, code)
		}
		if !listed {
			t.Errorf("%v: status %d does not list %s", err, status, code)
		}
	}
}

// locks -f is answered when it ends; its output before that consists of events.
func TestLocksFollowIsAnswered(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	holder := openPipeline(t, "-server", box.Addr())
	if _, err := io.WriteString(holder.in, "lock /l\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := holder.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	p := openPipeline(t, "-server", box.Addr(), "-o", "json")
	if _, err := io.WriteString(p.in, "locks -f /l\n"); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(zktest.Patience, func() { _ = p.cmd.Process.Kill() })
	event, err := p.out.ReadString('\n')
	if err != nil || len(answers(t, event)) != 0 {
		t.Fatalf("%s%v", event, err)
	}
	zktest.Must(t, p.cmd.Process.Signal(os.Interrupt))
	rest, err := io.ReadAll(p.out)
	late.Stop()
	if list := answers(t, string(rest)); err != nil || len(list) != 1 || !strings.Contains(string(rest), `"code":"Interrupted"`) {
		t.Errorf("%s%v", rest, err)
	}
	wantExit(t, p.cmd, 130)
}
