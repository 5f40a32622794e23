//go:build unix

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/app"
	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// proposed returns the completion that zksh prints for another shell, given a line and an
// environment.
func proposed(t *testing.T, env []string, line string, args ...string) string {
	t.Helper()
	cmd := exec.Command("zksh", append([]string{app.CompleteWord}, args...)...)
	cmd.Env = append(env, "COMP_LINE="+line)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Fatalf("%s: %v: %s", line, err, errs.String())
	}
	return out.String()
}

// wantProposed repeats the completion until zksh proposes want. On a busy machine, the server's
// answer may come too late for a single try.
func wantProposed(t *testing.T, env []string, line, want string, args ...string) {
	t.Helper()
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("the last answer: %q", last)
		}
	}()
	zktest.Eventually(t, line+" is completed to "+want, func() bool {
		last = proposed(t, env, line, args...)
		return last == want
	})
}

// completionSandbox starts a sandbox with znodes whose names are difficult for shells, and
// returns its address.
func completionSandbox(t *testing.T) string {
	t.Helper()
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	for _, path := range []string{"/app", "/app/with blank", "/app/a:b=c@d", "/app/it's", "/app/中文", "/app/\u200bhidden", "/alone"} {
		runAt(t, server, "create", path)
	}
	return server
}

func TestCompleteWord(t *testing.T) {
	t.Parallel()
	server := completionSandbox(t)
	home := t.TempDir()
	env := append(homeEnv(home), "ZKSH_SERVER="+server)
	zktest.Must(t, os.MkdirAll(filepath.Join(home, "config", "zksh"), 0o700))
	config := filepath.Join(home, "config", "zksh", "config")
	text := "server = 127.0.0.1:1\n[here]\nserver = " + server + "/app\n[gone]\nserver = " + zktest.Refused(t) + "\n"
	zktest.Must(t, os.WriteFile(config, []byte(text), 0o600))
	for _, c := range []struct{ line, want string }{
		{"zksh getAl", "done\ngetAllChildrenNumber\tcount all znodes below a znode\n"},
		{"sudo -u me zksh getAl", "done\ngetAllChildrenNumber\tcount all znodes below a znode\n"},
		{"zksh get /al", "more\n/alone\n"},
		{"zk get /al", "more\n/alone\n"}, // zk is an alias of zksh in the shell
		{"zksh -q -o json get -s /al", "more\n/alone\n"},
		{"zksh get /app/", "more\n/app/a:b=c@d\n/app/it's\n/app/with blank\n/app/中文\n"},
		{"zksh get '/app/w", "more\n/app/with blank\n"},
		{`zksh get /app/with\ b`, "more\n/app/with blank\n"},
		{"zksh -c 'get /al", "more\nget /alone\n"},
		{"zksh -c ls -c 'get -s \"/app/w", "more\nget -s \"/app/with blank\"\n"},
		{"zksh lock /al", "more\n/alone\n"},
		{"zksh -server " + server + "/app get /w", "more\n/with blank\n"},
		{"zksh @he", "done\n@here\n"},
		{"zksh @here get /w", "more\n/with blank\n"},
		{"zksh -server @g", "done\n@gone\n"},
		{"zksh connect @g", "done\n@gone\n"},
		{"zksh -o ", "done\ntext\ntable\njson\n"},
		{"zksh --output=j", "done\n--output=json\n"},
		{"zksh lock --as=k", "done\n--as=kazoo\n"},
		{"zksh -waitf", "done\n-waitforconnection\twait until connected, but at most for the timeout\n"},
		{"zksh -f ", "files\n"},
		{"zksh --auth-file=x", "files\n"},
		{"zksh set -f ", "files\n"},
		{"zksh source ", "files\n"},
		{"zksh compl", "done\ncompletion\tprint the completion script for a shell\n"},
		{"zksh completion ", "done\nbash\nzsh\nfish\n"},
	} {
		wantProposed(t, env, c.line, c.want, "zsh")
	}
	// Bash replaces only the last part of a word and does not quote the replacement.
	const breaks = " \t\n\"'@><=;|&(:"
	for line, want := range map[string]string{
		"zksh get /app/a:":        "more\nb=c@d\n",
		"zksh get /app/a:b=":      "more\nc@d\n",
		"zksh get /app/i":         "more\n/app/it\\'s\n",
		"zksh get \"/app/i":       "more\n/app/it's\n",
		"zksh get '/app/i":        "more\n/app/it'\\''s\n",
		"zksh get /app/w":         "more\n/app/with\\ blank\n",
		"zksh get \"/app/w":       "more\n/app/with blank\n",
		"zksh @he":                "done\nhere\n",
		"zksh --output=j":         "done\njson\n",
		"zksh setAcl /app wor":    "more\nworld:anyone:\teverybody\n",
		"zksh setAcl /app world:": "more\nanyone:\teverybody\n",
	} {
		wantProposed(t, env, line, want, "bash", breaks)
	}

	// Unknown or secret words are not completed, and no error is printed.
	silent := zktest.Silent(t)
	for _, line := range []string{
		"zksh addauth digest ", "zksh addauth digest user:se", "zksh nonsense ", "zksh get /nope/", "zksh get x", "zksh man ",
		"zksh -server " + zktest.Refused(t) + " get /", "zksh -server " + silent + " get /", "zksh -server " + zktest.HTTP(t) + " get /",
		"zksh -server ,,, get /", "zksh @nobody get /", "zksh @gone get /", "zksh -timeout x get /", "zksh --nonsense get /",
		"zksh --sandbox get /", "zksh get $'", "zksh get \xff", "zksh set /alone ", "zksh create /x ",
	} {
		if got := proposed(t, env, line, "zsh"); got != "" {
			t.Errorf("%q: %q", line, got)
		}
	}
	if left, err := os.ReadDir(filepath.Join(home, "state")); err == nil {
		t.Errorf("something is kept: %v", left)
	}

	// With an invalid configuration file, zksh proposes everything except znodes.
	zktest.Must(t, os.WriteFile(config, []byte("nonsense\n"), 0o600))
	wantProposed(t, env, "zksh getAl", "done\ngetAllChildrenNumber\tcount all znodes below a znode\n", "zsh")
	if got := proposed(t, env, "zksh get /", "zsh"); got != "" {
		t.Errorf("%q", got)
	}
	for _, page := range []string{"man", "completion bash"} {
		cmd := exec.Command("zksh", strings.Fields(page)...)
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s with a configuration that is wrong: %v: %s", page, err, out)
		}
	}
}

// Completion uses a running sandbox, but does not start one.
func TestCompleteOnASandbox(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	ann := openPipelineIn(t, home, "--sandbox")
	ann.ask(t, "create /mine", "Created /mine")
	wantProposed(t, homeEnv(home), "zksh --sandbox get /m", "more\n/mine\n", "zsh")
	ann.leave(t)
	if got := proposed(t, homeEnv(home), "zksh --sandbox get /m", "zsh"); got != "" {
		t.Errorf("%q without a sandbox", got)
	}
}

// Completion closes its session, opens none if no znode name is wanted, and sends only a request
// for a list of children.
func TestCompleteClosesItsSession(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	proxy := zktest.NewProxy(t, box.Addr())
	env := append(homeEnv(t.TempDir()), "ZKSH_SERVER="+proxy.Addr())
	for _, line := range []string{"zksh ge", "zksh get -", "zksh -", "zksh man", "zksh addauth digest "} {
		proposed(t, env, line, "zsh")
	}
	if asked := proxy.Requests(); len(asked) > 0 {
		t.Errorf("requests %d for what no server knows", asked)
	}
	runAt(t, box.Addr(), "create", "/a")
	// The answer is printed before the session is closed. On a busy machine there may be no time
	// to close it; the session then expires.
	zktest.Eventually(t, "it asks for the children alone, and closes its session", func() bool {
		proxy.Requests()
		answer := proposed(t, env, "zksh get /a", "zsh")
		asked := proxy.Requests()
		slices.Sort(asked)
		return answer == "more\n/a\n" && slices.Equal(slices.Compact(asked), []int32{jute.OpCloseSession, jute.OpGetChildren2})
	})
}

// tab presses Tab until the screen shows a pattern, because on a busy machine an answer may come
// too late.
func (s *screen) tab(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	pressed := time.Time{}
	s.until("Tab does not lead to "+pattern, func(shown string) bool {
		if !re.MatchString(shown) && time.Since(pressed) > 5*time.Second {
			pressed = time.Now()
			s.keys("Tab")
		}
		return re.MatchString(shown)
	})
}

// installLine returns the line that a document asks users to add to the start-up file of their
// shell.
func installLine(t *testing.T, shell string) string {
	t.Helper()
	pattern := regexp.MustCompile("(?m)^\\| " + shell + " \\| `(.*?)` \\|")
	for _, file := range docs(t) {
		if row := pattern.FindStringSubmatch(readFile(t, file)); row != nil {
			return strings.ReplaceAll(row[1], `\|`, "|")
		}
	}
	t.Fatalf("no document says how %s loads the completion", shell)
	return ""
}

// Real shells load the completion scripts that zksh prints, and complete with them.
func TestBashCompletes(t *testing.T) {
	t.Parallel()
	s := openBash(t, 80, 24)
	s.line("cd " + s.dir + "; export ZKSH_SERVER=" + completionSandbox(t) + "; " + installLine(t, "bash") + "; stty -g > before; clear")
	s.want(`\A\$$`)
	for _, c := range []struct{ typed, want string }{
		{"zksh getAl", `^\$ zksh getAllChildrenNumber$`},
		{"zksh get /al", `^\$ zksh get /alone$`},
		{"zksh get /app/w", `^\$ zksh get /app/with\\ blank$`},
		{"zksh get '/app/w", `^\$ zksh get '/app/with blank'$`},
		{`zksh get "/app/i`, `^\$ zksh get "/app/it's"$`},
		{"zksh get /app/i", `^\$ zksh get /app/it\\'s$`},
		{"zksh get /app/a:", `^\$ zksh get /app/a:b=c@d$`},
		{"zksh get /app/中", `^\$ zksh get /app/中文$`},
		{"zksh -c 'get /al", `^\$ zksh -c 'get /alone'$`},
		{"zksh --output=j", `^\$ zksh --output=json$`},
		{"zksh -f /etc/host.c", `^\$ zksh -f /etc/host.conf$`},
	} {
		s.text(c.typed)
		s.tab(c.want)
		s.keys("C-u", "C-l")
		s.want(`\A\$$`)
	}
	s.line("stty -g | cmp - before && set -- $(history | grep -c '[g]et /al') && echo as it was, $1")
	s.want(`^as it was, 0$`)
}

func TestZshCompletes(t *testing.T) {
	t.Parallel()
	zktest.NeedProgram(t, "zsh", "zsh")
	s := openBash(t, 80, 24)
	s.line("cd " + s.dir + "; export ZKSH_SERVER=" + completionSandbox(t) + "; PS1='> ' exec zsh -f")
	s.want(`^>$`)
	s.line("unsetopt beep; autoload -U compinit; compinit -u -D; " + installLine(t, "zsh") + "; clear")
	s.want(`\A>$`)
	for _, c := range []struct{ typed, want string }{
		{"zksh getAl", `^> zksh getAllChildrenNumber$`},
		{"zksh get /al", `^> zksh get /alone$`},
		{"zksh get /app/w", `^> zksh get /app/with\\ blank$`},
		{"zksh get '/app/w", `^> zksh get '/app/with blank$`},
		{"zksh get /app/i", `^> zksh get /app/it\\'s$`},
		{"zksh get /app/a:", `^> zksh get /app/a:b=c@d$`},
		{"zksh get /app/中", `^> zksh get /app/中文$`},
		{"zksh -c 'get /al", `^> zksh -c 'get /alone$`},
		{"zksh --output=j", `^> zksh --output=json$`},
		{"zksh -f /etc/host.c", `^> zksh -f /etc/host.conf$`},
		{"zksh ex", `^exists  -- check whether a znode exists`},
	} {
		s.text(c.typed)
		s.tab(c.want)
		s.keys("C-u", "C-l")
		s.want(`\A>$`)
	}
	// zsh can also load the script as a file in fpath.
	s.line("mkdir f; zksh completion zsh > f/_zksh; exec env PS1='= ' zsh -f")
	s.want(`^=$`)
	s.line("fpath=($PWD/f $fpath); autoload -U compinit; compinit -u -D; clear")
	s.want(`\A=$`)
	s.text("zksh get /al")
	s.tab(`^= zksh get /alone$`)
}

func TestFishCompletes(t *testing.T) {
	t.Parallel()
	zktest.NeedProgram(t, "fish", "fish")
	server := completionSandbox(t)
	home := t.TempDir()
	for line, want := range map[string]string{
		"zksh getAl":              "getAllChildrenNumber\tcount all znodes below a znode\n",
		"zksh get /al":            "/alone\n",
		"zksh get /app/w":         "/app/with blank\n",
		`zksh get "/app/w`:        "/app/with blank\n",
		`zksh get /app/with\ `:    "/app/with blank\n",
		"zksh get /app/a:":        "/app/a:b=c@d\n",
		"zksh get /app/中":         "/app/中文\n",
		`zksh -c "get /al`:        "get /alone\n",
		"zksh --output=j":         "--output=json\n",
		"zksh -f /etc/host.c":     "/etc/host.conf\n",
		"zksh --file=/etc/host.c": "--file=/etc/host.conf\n",
	} {
		zktest.Eventually(t, "fish completes "+line, func() bool {
			cmd := zktest.Command(zktest.Within(t), t, "fish", "--no-config", "-c", installLine(t, "fish")+`; complete -C "$LINE"`)
			cmd.Env = append(homeEnv(home), "ZKSH_SERVER="+server, "LINE="+line, "LC_ALL=C.UTF-8")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			return string(out) == want
		})
	}
}

func TestManAndCompletionAreProgramCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"man", "--help"}, 0, "^zksh man\n  write the manual page"},
		{[]string{"completion", "-h"}, 0, `^zksh completion bash\|zsh\|fish\n`},
		{[]string{"man", "get"}, 2, `^zksh: man: unexpected word "get" \(usage: zksh man\)\n$`},
		{[]string{"completion"}, 2, `^zksh: completion: missing bash\|zsh\|fish \(usage: `},
		{[]string{"completion", "ksh"}, 2, `^zksh: completion: invalid argument "ksh": must be one of bash, zsh, fish \(usage: `},
		{[]string{"-server", zktest.Refused(t), "-q", "completion", "bash"}, 0, "^# bash completion for zksh"},
		{[]string{"-c", "man"}, 127, `^-c:1: man: unknown command "man"; did you mean help\? In other shells, zksh man prints`},
	} {
		cmd := exec.Command("zksh", c.args...)
		cmd.Env = homeEnv(t.TempDir())
		out, _ := cmd.CombinedOutput() // the exit status is checked below
		if got := cmd.ProcessState.ExitCode(); got != c.status || !regexp.MustCompile(c.want).Match(out) {
			t.Errorf("%v: status %d: %s", c.args, got, out)
		}
	}
}
