//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

var promptPattern = regexp.MustCompile(`(?m)^\[zk: [^ ]+\(CONNECTED(?:, \d+ locks?)?\) \d+\] (.*)$`)

// variableParts lists the parts of an answer that differ from run to run, with their
// replacements.
var variableParts = []struct {
	pattern *regexp.Regexp
	to      string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "GUID"},
	{regexp.MustCompile(`(/\S+/)?_c_GUID-lock-\d+(\d{6})\b`), "…lock…$2"},
	{regexp.MustCompile(`0x[0-9a-f]+`), "0xN"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "MOMENT"},
	{regexp.MustCompile(`waited=\d+\.\d+s`), "waited=Ns"},
	{regexp.MustCompile(`\b\d+(\.\d+)?m?s\b`), "Ns"},
	{regexp.MustCompile(`(?m)^ +\d+\.\d{6} `), "N.N "},
	{regexp.MustCompile(`localhost:2181`), "127.0.0.1:N"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:N"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`\S+@\S+ pid \d+`), "USER@HOST pid N"},
	{regexp.MustCompile(` +`), " "},
}

func normalize(text string) string {
	for _, c := range variableParts {
		text = c.pattern.ReplaceAllString(text, c.to)
	}
	return text
}

// foldedColumn matches a column that a narrow terminal moves to a line of its own.
var foldedColumn = regexp.MustCompile(`\n  (token|waited)=`)

// keepColumns drops the columns of a table of locks that the document does not show. The
// document shows fewer columns than a pipe does, like a narrow terminal.
func keepColumns(document, answers string) string {
	shown := strings.Fields(regexp.MustCompile(`(?m)^# .*$`).FindString(document))
	if len(shown) == 0 {
		return answers
	}
	var header []string
	lines := strings.Split(answers, "\n")
	for i, line := range lines {
		cells := regexp.MustCompile(` {2,}`).Split(line, -1)
		if cells[0] == "PLACE" {
			cells[0], header = "#", cells
		}
		if len(cells) != len(header) {
			continue
		}
		var left []string
		for column, cell := range cells {
			if slices.Contains(shown, header[column]) {
				left = append(left, cell)
			}
		}
		lines[i] = strings.Join(left, " ")
	}
	return strings.Join(lines, "\n")
}

// TestDocExamples runs the examples of each document in order against one sandbox.
func TestDocExamples(t *testing.T) {
	t.Parallel()
	eachDoc(t, `console|zksh( \d)?`, func(t *testing.T, blocks []fenced) {
		t.Parallel()
		w := docEnv{
			server: zktest.Sandbox(t, sandbox.Options{}).Addr(),
			dir:    t.TempDir(), state: t.TempDir(), terminals: map[string]*terminal{},
		}
		for _, b := range blocks {
			if kind, number, _ := strings.Cut(b.info, " "); kind == "zksh" {
				w.zksh(t, number, b.text)
			} else {
				w.console(t, b.text)
			}
		}
	})
}

// docEnv is the environment in which the examples of a document run.
type docEnv struct {
	server, dir string
	state       string               // state directory of the sandbox's shells
	terminals   map[string]*terminal // the sandbox's shells, by their number in the document
}

func (w docEnv) run(t *testing.T, script, stdin string) string {
	cmd := exec.Command("bash", "-c", script)
	cmd.Env = append(os.Environ(), "ZKSH_SERVER="+w.server, "XDG_CONFIG_HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir())
	cmd.Dir = w.dir
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run() // an example that fails shows that in its output
	return out.String()
}

// zksh runs a block that shows a prompt: in a new shell, or in the sandbox shell with the given
// number.
func (w docEnv) zksh(t *testing.T, number, text string) {
	text = foldedColumn.ReplaceAllString(text, " $1=")
	want := promptPattern.ReplaceAllString(text, "$1")
	lines := promptPattern.FindAllStringSubmatch(text, -1)
	var answers string
	if number == "" {
		var in strings.Builder
		for _, l := range lines {
			in.WriteString(l[1] + "\n")
		}
		answers = w.run(t, "zksh", in.String())
	} else {
		if w.terminals[number] == nil {
			w.terminals[number] = openTerminal(t, w.state)
		}
		// Output that the shell prints unasked comes before the first typed line.
		first := strings.Count(text[:promptPattern.FindStringIndex(text)[0]], "\n")
		answers = w.terminals[number].play(t, nil, first)
		answers += w.terminals[number].play(t, lines, strings.Count(text, "\n")-len(lines)-first)
	}
	answers = keepColumns(want, answers)
	// The document shows each command before its answer; insert the commands in the same places.
	if diff := cmp.Diff(normalize(want), normalize(interleave(want, answers, lines))); diff != "" {
		t.Errorf("example differs (-document +zksh):\n%s", diff)
	}
}

// console runs a block that shows the prompt of another shell.
func (w docEnv) console(t *testing.T, text string) {
	for command, want := range consoleLines(t, w.dir, text) {
		if have := strings.TrimSuffix(w.run(t, command, ""), "\n"); have != want {
			t.Errorf("$ %s\ndocument: %q\nzksh:     %q", command, want, have)
		}
	}
}

// consoleLines iterates over the commands of a block and their answers. A backslash at the end
// of a line continues the command. If the block shows a file with cat, consoleLines writes that
// file first, because later commands use it.
func consoleLines(t *testing.T, dir, text string) iter.Seq2[string, string] {
	return func(yield func(command, want string) bool) {
		for example := range strings.SplitSeq(strings.TrimPrefix(text, "$ "), "\n$ ") {
			example = strings.ReplaceAll(example, " \\\n", " ")
			command, want, _ := strings.Cut(strings.TrimSuffix(example, "\n"), "\n")
			if name, ok := strings.CutPrefix(command, "cat "); ok {
				zktest.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(want+"\n"), 0o644))
			}
			if !yield(command, want) {
				return
			}
		}
	}
}

// A terminal is a shell of the sandbox; the test types a few lines at a time into it.
type terminal struct {
	in    io.Writer
	lines chan string
}

// openTerminal starts a shell. Shells with the same state directory share one sandbox.
func openTerminal(t *testing.T, state string) *terminal {
	t.Helper()
	cmd := exec.Command("zksh", "--sandbox")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "XDG_CONFIG_HOME="+state)
	in, err := cmd.StdinPipe()
	zktest.Must(t, err)
	out, err := cmd.StdoutPipe()
	zktest.Must(t, err)
	cmd.Stderr = cmd.Stdout
	zktest.Must(t, cmd.Start())
	term := &terminal{in: in, lines: make(chan string, 100)}
	go func() { // ends when the shell does
		defer close(term.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			term.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		for range term.lines {
		}
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != commands.StatusNotLocked { // the status of locks when a lock is held
			t.Errorf("a terminal of a document: %v", err)
		}
	})
	return term
}

// play types lines and returns the given number of lines of output.
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

// interleave inserts the typed lines into answers, where the document shows them.
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
