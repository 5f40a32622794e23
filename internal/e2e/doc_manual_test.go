//go:build unix

package e2e

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/app"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell/manual"
)

// The manual page lists every command, option, exit status and topic, and groff reports no
// warnings.
func TestManualPage(t *testing.T) {
	t.Parallel()
	zktest.NeedProgram(t, "groff", "groff-base")
	page := zksh(t, "man")
	shown := map[string]string{}
	for _, device := range []string{"utf8", "ascii"} {
		cmd := zktest.Command(zktest.Within(t), t, "groff", "-man", "-ww", "-T"+device, "-P-cbou", "-rLL=200n", "-rHY=0")
		cmd.Stdin = strings.NewReader(page)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil || errs.Len() > 0 {
			t.Fatalf("groff: %v: %s", err, errs.String())
		}
		shown[device] = regexp.MustCompile(`\s+`).ReplaceAllString(out.String(), " ")
	}
	for _, columns := range []string{"60", "80"} {
		for _, device := range []string{"utf8", "ascii"} {
			cmd := zktest.Command(zktest.Within(t), t, "groff", "-man", "-ww", "-T"+device, "-rLL="+columns+"n")
			cmd.Stdin = strings.NewReader(page)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			if err := cmd.Run(); err != nil || errs.Len() > 0 {
				t.Errorf("in %s columns, %s: %v: %s", columns, device, err, errs.String())
			}
		}
	}
	has := func(text string) {
		t.Helper()
		if want := strings.Join(strings.Fields(strings.ReplaceAll(text, "…", "...")), " "); !strings.Contains(shown["utf8"], want) {
			t.Errorf("the manual lacks %q", want)
		}
	}
	for _, c := range registry().All() {
		has(c.Usage())
		has(c.Summary)
		has(c.Help)
		has(strings.Join(c.Examples, " "))
		c.FlagSet().VisitAll(func(f *pflag.Flag) {
			_, about := pflag.UnquoteUsage(f)
			has("--" + f.Name)
			has(about)
		})
	}
	for _, s := range commands.Statuses {
		has(s.Meaning)
	}
	for option := range strings.Lines(app.Help(0)) {
		if name := regexp.MustCompile(`--[a-z-]+`).FindString(option); strings.HasPrefix(strings.TrimSpace(option), "-") {
			has(name)
		}
	}
	for _, p := range manual.Pages() {
		text := readFile(t, filepath.Join("../../shell/manual", p.Topic+".md"))
		for _, heading := range regexp.MustCompile("(?m)^##+ (.*)").FindAllStringSubmatch(text, -1) {
			has(strings.ReplaceAll(heading[1], "`", ""))
		}
		for _, block := range fences(t, filepath.Join("../../shell/manual", p.Topic+".md"), ".*") {
			for line := range strings.Lines(block.text) {
				has(line)
			}
		}
		has(p.Summary)
	}
	has("ZKSH_SERVER")
	has("/.local/state/zksh/history")
	has("whether commands can write")
	if !strings.Contains(shown["utf8"], "--server host[:port][,...][/chroot]") {
		t.Error("a dash is none that can be typed")
	}
}

// A page of the manual has bold words on terminals that support them, unless NO_COLOR is set.
// Elsewhere it has no escape sequences.
func TestManualIsBoldOnTerminals(t *testing.T) {
	t.Parallel()
	for env, bold := range map[string]bool{"TERM=xterm": true, "TERM=dumb": false, "TERM=xterm NO_COLOR=1": false} {
		r := startRich(t, exec.Command("zksh", "help", "statuses"), append(strings.Fields(env), "PAGER=")...)
		r.expect(`SIGTERM or SIGHUP`)
		r.wantRestored(0)
		if has := strings.Contains(r.shown(), "\x1b[1mExit status\x1b[0m"); has != bold || strings.Contains(r.shown(), "\x1b") != bold {
			t.Errorf("%s: bold words: %v; want %v", env, has, bold)
		}
	}
	if out := zksh(t, "help", "statuses"); strings.Contains(out, "\x1b") || !strings.HasPrefix(out, "Exit status\n\n    ") {
		t.Errorf("in a pipe: %q", out)
	}
}

// A page that is longer than the screen goes through the pager, both from another shell and at
// the prompt. less shows bold words without an option.
func TestManualInPager(t *testing.T) {
	t.Parallel()
	zktest.NeedProgram(t, "less", "less")
	s := openBash(t, 60, 24)
	s.line("unset PAGER LESS; export ZKSH_SERVER=" + zktest.Refused(t) + "; zksh help guarantee")
	s.want(`\AThe guarantee of a lock\n\n    Learn what`)
	s.want(`^:$`)
	s.keys("q")
	s.want(`^\$$`)
	s.line("clear; zksh help guarantee | grep -c 'guarantee of a lock'")
	s.want(`\A1\n\$$`)
	s.line("clear; PAGER='sed s/^/paged:/' zksh help guarantee | head -1; PAGER='head -1' zksh help guarantee")
	s.want(`\AThe guarantee of a lock\nThe guarantee of a lock\n\$$`)
	s.line("clear; zksh -c 'help guarantee' | wc -l; zksh -c 'help guarantee'")
	s.want(`^\$$`) // no pager waits for a key
	s.line("clear; zksh -q --sandbox")
	s.want(`\(CONNECTED\) 0\]$`)
	s.line("help guarantee")
	s.want(`\AThe guarantee of a lock\n`)
	s.want(`^:$`)
	s.keys("q")
	s.want(`\(CONNECTED\) 1\]$`)
	for i, line := range []string{"help all", "help lock", "lock --help"} {
		s.line(line)
		s.want(`^:$`)
		s.keys("q")
		s.want(fmt.Sprintf(`\(CONNECTED\) %d\]$`, i+2))
	}
	s.line("help version")
	s.want(`^Examples\n(?:.*\n)*\[zk: \S+ 5\]$`) // the text fits the screen, so no pager starts
	s.keys("C-d")
	s.want(`^\$$`)
	s.line("clear; zksh help lock")
	s.want(`\Alock \[-n\]`)
	s.want(`^:$`)
	s.keys("q")
	s.want(`^\$$`)
	s.line("clear; zksh help lock | grep -c Examples; zksh help lock | head -1 | wc -l")
	s.want(`\A1\n1\n\$$`)
}

// On a terminal without control sequences, zksh starts a pager only if the user has set one.
// There, less would wait for keys and read the following lines as such.
func TestManualOnDumbTerminals(t *testing.T) {
	t.Parallel()
	s := openBash(t, 60, 24)
	s.line("unset PAGER LESS; export ZKSH_SERVER=" + zktest.Refused(t))
	for _, term := range []string{"TERM=dumb", "TERM="} {
		s.line("clear; " + term + " zksh help guarantee; echo and on")
		s.want(`^and on\n\$$`)
		if shown := s.shown(); strings.Contains(shown, "not fully functional") {
			t.Errorf("%s: a pager is started: %s", term, shown)
		}
		s.line("clear; PAGER='sed s/^/paged:/' " + term + " zksh -q")
		s.want(`\) 0\]`)
		s.line("help guarantee")
		s.want(`^paged:`)
		s.line("quit")
		s.want(`^\$$`)
	}
}
