//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/app"
	"github.com/zksh/zksh/internal/zktest"
)

var update = flag.Bool("update", false, "write the README's generated parts")

const readme = "../../README.md"

// generated are the parts of the README that come from the program, by the mark
// before them.
func generated() map[string]string {
	var table, statuses strings.Builder
	table.WriteString("| command | what it does |\n|---|---|\n")
	for _, c := range registry().All() {
		name := "`" + strings.ReplaceAll(c.Usage(), "|", "\\|") + "`"
		for _, a := range c.Aliases {
			name += ", `" + a + "`"
		}
		fmt.Fprintf(&table, "| %s | %s |\n", name, c.Summary)
	}
	statuses.WriteString("| status | meaning | code in JSON |\n|---|---|---|\n")
	for _, s := range commands.Statuses {
		fmt.Fprintf(&statuses, "| %d | %s | %s |\n", s.Status, s.Meaning, s.Codes)
	}
	return map[string]string{
		"<!-- commands: written by the tests, see CONTRIBUTING -->": table.String(),
		"<!-- options -->":  "```\n" + app.Help(0) + "```\n",
		"<!-- statuses -->": statuses.String(),
		"<!-- settings -->": "```\n" + app.ConfigHelp() + "```\n",
	}
}

func TestReadmeTables(t *testing.T) {
	have := readFile(t, readme)
	want := have
	for mark, text := range generated() {
		before, rest, found := strings.Cut(want, mark+"\n")
		_, after, closed := strings.Cut(rest, "<!-- end -->")
		if !found || !closed {
			t.Fatalf("%s lacks %s … <!-- end -->", readme, mark)
		}
		want = before + mark + "\n" + text + "<!-- end -->" + after
	}
	if *update {
		if err := os.WriteFile(readme, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("run make docs; %s differs (-want +have):\n%s", readme, diff)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// fence matches the README's blocks that show the program at work.
// A shell of the sandbox has a number.
var fence = regexp.MustCompile("(?ms)^```(console|zksh)(?: (\\d))?\n(.*?)^```$")

var promptPattern = regexp.MustCompile(`(?m)^\[zk: [^ ]+\(CONNECTED(?:, \d+ locks?)?\) \d+\] (.*)$`)

// changing is what differs from run to run in the answer of a lock command.
var changing = []struct {
	pattern *regexp.Regexp
	to      string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "GUID"},
	{regexp.MustCompile(`0x[0-9a-f]+`), "0xN"},
	{regexp.MustCompile(`waited=\d+\.\d+s`), "waited=Ns"},
	{regexp.MustCompile(`\b\d+m?s\b`), "Ns"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:N"},
	{regexp.MustCompile(`\S+@\S+ pid \d+`), "USER@HOST pid N"},
	{regexp.MustCompile(` +`), " "},
}

func steady(text string) string {
	for _, c := range changing {
		text = c.pattern.ReplaceAllString(text, c.to)
	}
	return text
}

// TestReadmeExamples runs every example in order against one server.
func TestReadmeExamples(t *testing.T) {
	t.Parallel()
	server := zktest.Start(t)
	dir := t.TempDir()
	run := func(script, stdin string) string {
		cmd := exec.Command("bash", "-c", script)
		cmd.Env = append(os.Environ(), "ZKSH_SERVER="+server.Addr(),
			"XDG_CONFIG_HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir())
		cmd.Dir = dir
		cmd.Stdin = strings.NewReader(stdin)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // the status of an example that fails shows in its output
		return out.String()
	}
	blocks := fence.FindAllStringSubmatch(readFile(t, readme), -1)
	if len(blocks) < 3 {
		t.Fatalf("only %d examples found", len(blocks))
	}
	state := t.TempDir()
	terminals := map[string]*terminal{}
	for _, b := range blocks {
		kind, number, text := b[1], b[2], b[3]
		if kind == "zksh" {
			want := promptPattern.ReplaceAllString(text, "$1")
			lines := promptPattern.FindAllStringSubmatch(text, -1)
			var answers string
			if number == "" {
				var in strings.Builder
				for _, l := range lines {
					in.WriteString(l[1] + "\n")
				}
				answers = run("zksh", in.String())
			} else {
				if terminals[number] == nil {
					terminals[number] = openTerminal(t, state)
				}
				// What comes by itself comes before anything is typed.
				first := strings.Count(text[:promptPattern.FindStringIndex(text)[0]], "\n")
				answers = terminals[number].play(t, nil, first)
				answers += terminals[number].play(t, lines, strings.Count(text, "\n")-len(lines)-first)
			}
			// The commands are shown between the answers; put them in there.
			if diff := cmp.Diff(steady(want), steady(interleave(want, answers, lines))); diff != "" {
				t.Errorf("example differs (-README +zksh):\n%s", diff)
			}
			continue
		}
		for example := range strings.SplitSeq(strings.TrimPrefix(text, "$ "), "\n$ ") {
			command, want, _ := strings.Cut(strings.TrimSuffix(example, "\n"), "\n")
			if name, ok := strings.CutPrefix(command, "cat "); ok { // what it shows is the file the next example uses
				if err := os.WriteFile(filepath.Join(dir, name), []byte(want+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			have := strings.TrimSuffix(run(command, ""), "\n")
			if have != want {
				t.Errorf("$ %s\nREADME: %q\nzksh:   %q", command, want, have)
			}
		}
	}
}

// terminal is a shell of the sandbox that is typed into a bit at a time.
type terminal struct {
	in    io.Writer
	lines chan string
}

// openTerminal starts a shell; those with the same state directory share one sandbox.
func openTerminal(t *testing.T, state string) *terminal {
	t.Helper()
	cmd := exec.Command("zksh", "--sandbox")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+state)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{in: in, lines: make(chan string, 100)}
	go func() { // ends with the shell
		defer close(term.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			term.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		for range term.lines {
		}
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != commands.StatusNotLocked { // as locks has it for a lock that is held
			t.Errorf("a terminal of the README: %v", err)
		}
	})
	return term
}

// play types lines and takes so many lines of answers.
func (term *terminal) play(t *testing.T, lines [][]string, answers int) string {
	t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(term.in, l[1]+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	for range answers {
		select {
		case l := <-term.lines:
			b.WriteString(l + "\n")
		case <-time.After(20 * time.Second):
			t.Fatalf("no further answer after\n%s", b.String())
		}
	}
	return b.String()
}

// interleave puts the typed lines where the README has them.
func interleave(want, answers string, lines [][]string) string {
	typed := map[string]int{}
	for _, l := range lines {
		typed[l[1]]++
	}
	rest := strings.SplitAfter(answers, "\n")
	var b strings.Builder
	for line := range strings.Lines(want) {
		if typed[strings.TrimSuffix(line, "\n")] > 0 {
			b.WriteString(line)
			continue
		}
		if len(rest) > 0 {
			b.WriteString(rest[0])
			rest = rest[1:]
		}
	}
	return b.String() + strings.Join(rest, "")
}
