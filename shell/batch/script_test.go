package batch

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/shell/exit"
)

// readScript returns the lines of a script, each after its number, and the errors.
func readScript(r io.Reader) (all []string) {
	for in := newScriptReader(r); ; {
		line, number, err := in.Next()
		switch {
		case err == io.EOF:
			return all
		case err != nil:
			line = "error: " + err.Error()
		}
		all = append(all, fmt.Sprintf("%d %s", number, line))
	}
}

// An open quote continues on the next line, which is data.
func TestQuotesOverSeveralLines(t *testing.T) {
	for _, c := range []struct{ input, want string }{
		{"create /d \"a\ndelete /x\n\"\nls /\n", `1 create /d $'a\ndelete /x\n'|4 ls /`},
		{"set /a '{\r\n \"b\": 1\r\n}'\r\nls /", `1 set /a $'{\n "b": 1\n}'|4 ls /`},
		{"set /a $'x\ny'\r\rls /", `1 set /a $'x\ny'|3 |4 ls /`},
		{"set /a $'x\\'\ny'\nls /", `1 set /a $'x\'\ny'|3 ls /`},
		{"set /a \"x\ny\" 'b\n# c'\n# d \"\nls /", `1 set /a $'x\ny' $'b\n# c'|4 # d "|5 ls /`},
		{"set /a \"x\n\n# y\"\nls /", `1 set /a $'x\n\n# y'|4 ls /`},
		{"# it's\nset /a don't\nset /b x\" y\n", `1 # it's|2 set /a don't|3 set /b x" y`},
		{"get /a | sed 's/a\nls /", `1 get /a | sed 's/a|2 ls /`},
		{"set /a \"b", `1 set /a "b`},
		{"set /a \"b\n", `1 set /a "b`},
		{"ls /\nset /a \"b\ndelete /a", `1 ls /|2 error: unclosed " at column 8; close it, or write the word as $'…'; lines 2-3 were not run`},
		{"set /a $'b\ndelete /a\n\n", `1 error: unclosed $' at column 8; close it with '; lines 1-3 were not run`},
	} {
		for name, r := range map[string]io.Reader{
			"whole":        strings.NewReader(c.input),
			"byte by byte": iotest.OneByteReader(strings.NewReader(c.input)),
		} {
			if got := readScript(r); strings.Join(got, "|") != c.want {
				t.Errorf("%q, %s:\n%s, want\n%s", c.input, name, strings.Join(got, "|"), c.want)
			}
		}
	}
}

// An unclosed quote and a line that is too long are usage errors.
func TestUnreadableLinesAreUsageErrors(t *testing.T) {
	_, _, unclosed := newScriptReader(strings.NewReader("a \"\nb")).Next()
	for _, err := range []error{unclosed, errLongLine} {
		if exit.Status(err) != commands.StatusUsage {
			t.Errorf("%v has status %d", err, exit.Status(err))
		}
	}
}

// A line that is too long does not run, and neither does any line after it, which could be inside
// its quotes. One line may be too long, or all of them together.
func TestQuotedLineTooLong(t *testing.T) {
	full := strings.Repeat("x", maxLine)
	for _, c := range []struct {
		name, input string
		number      int
	}{
		{"together", "set /a \"" + full[20:] + "\ndelete /a\ndelete /b\"\nls /", 1},
		{"its first line", "set /a \"" + full + "\ndelete /a\"\nls /", 1},
		{"its second line", "set /a \"\n" + full + "\"\nls /", 2},
		{"a plain line", "set /a " + full + "'\"\nls /", 1},
		{"unclosed", "set /a '" + full + "\nls /", 1},
	} {
		in := newScriptReader(strings.NewReader(c.input))
		if line, number, err := in.Next(); line != "" || number != c.number || err != errLongLine {
			t.Errorf("%s: %.200q, %d, %v", c.name, line, number, err)
		}
		if line, _, err := in.Next(); line != "" || err != errLongLine {
			t.Errorf("%s, again: %.200q, %v", c.name, line, err)
		}
	}
}

// If reading the script fails in the middle of a line, no part of that line runs.
func TestQuotedLineCutByAnError(t *testing.T) {
	broken := errors.New("input broken")
	in := newScriptReader(io.MultiReader(strings.NewReader("a \"\ndelete /a\n"), iotest.ErrReader(broken)))
	for range 2 {
		if line, number, err := in.Next(); line != "" || number != 3 || !errors.Is(err, broken) {
			t.Errorf("%q, %d, %v", line, number, err)
		}
	}
}

// readLines reads all lines, and checks that their numbers count from 1 and that errors are final.
func readLines(t *testing.T, r io.Reader) ([]string, error) {
	t.Helper()
	var lines []string
	for in := newLineReader(r); ; {
		line, number, err := in.Next()
		if err != nil {
			if _, _, again := in.Next(); again != err {
				t.Errorf("after the error %v came %v", err, again)
			}
			if err == io.EOF {
				err = nil
			}
			return lines, err
		}
		lines = append(lines, line)
		if number != len(lines) {
			t.Errorf("line %d has number %d", len(lines), number)
		}
	}
}

func TestLines(t *testing.T) {
	for input, want := range map[string][]string{
		"":                    nil,
		"a":                   {"a"},
		"a\n":                 {"a"},
		"a\r":                 {"a"},
		"a\r\n":               {"a"},
		"a\nb\rc\r\nd":        {"a", "b", "c", "d"},
		"\n\n":                {"", ""},
		"\r\r":                {"", ""},
		"\r\n\r\n":            {"", ""},
		"a\n\rb":              {"a", "", "b"},
		"a\r\n\nb":            {"a", "", "b"},
		" a \x00\xff \n":      {" a \x00\xff "},
		"\ufeffls /\n\ufeffx": {"ls /", "\ufeffx"},
		"\ufeff\ufeff":        {"\ufeff"},
		"\ufeff":              nil,
		"\ufeff\n":            {""},
		"a\u0085b\u2028c\vd":  {"a\u0085b\u2028c\vd"},
	} {
		for name, r := range map[string]io.Reader{
			"whole":         strings.NewReader(input),
			"byte by byte":  iotest.OneByteReader(strings.NewReader(input)),
			"data with EOF": iotest.DataErrReader(strings.NewReader(input)),
		} {
			if got, err := readLines(t, r); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q, %s: %q, %v; want %q", input, name, got, err, want)
			}
		}
	}
}

// A line is returned at its \r, without waiting for the next byte. Otherwise a program that waits
// for the answer before it writes more would block.
func TestLineReturnsAtItsEnd(t *testing.T) {
	r, w := io.Pipe()
	in := newLineReader(r)
	for i, step := range []struct{ send, want string }{{"one\r", "one"}, {"\ntwo\r\n", "two"}, {"\n", ""}, {"three\n", "three"}} {
		go func() { _, _ = io.WriteString(w, step.send) }()
		line, number, err := in.Next()
		if err != nil || line != step.want || number != i+1 {
			t.Fatalf("after %q: %q, %d, %v", step.send, line, number, err)
		}
	}
}

func TestLineTooLong(t *testing.T) {
	full := strings.Repeat("x", maxLine)
	lines, err := readLines(t, strings.NewReader("a\n"+full+"\r\nb"))
	if err != nil || len(lines) != 3 || lines[1] != full || lines[2] != "b" {
		t.Fatalf("a line of %d bytes: %d lines, %v", maxLine, len(lines), err)
	}
	lines, err = readLines(t, strings.NewReader("a\n"+full+"y\nb"))
	if err != errLongLine || !slices.Equal(lines, []string{"a"}) {
		t.Errorf("a line of %d bytes: %d lines, %v", maxLine+1, len(lines), err)
	}
}

// Reading a line without end uses a limited amount of memory.
func TestLineWithoutEnd(t *testing.T) {
	in := newLineReader(io.LimitReader(endless{}, 3*maxLine))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := in.Next(); err != errLongLine {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 6*maxLine {
		t.Errorf("%d bytes were allocated", used)
	}
}

// endless is a reader that returns the letter x without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestLineCutByAnErrorDoesNotRun(t *testing.T) {
	broken := errors.New("input broken")
	lines, err := readLines(t, io.MultiReader(strings.NewReader("a\ndeleteall /a"), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || !slices.Equal(lines, []string{"a"}) {
		t.Fatalf("%q, %v", lines, err)
	}
}

var lineEnd = regexp.MustCompile("\r\n|\r|\n")

func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "a\r\nb", "a\rb\n", "\ufeffa\r\r\n\n", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, input string) {
		want := lineEnd.Split(strings.TrimPrefix(input, "\ufeff"), -1)
		if last := len(want) - 1; want[last] == "" {
			want = want[:last]
		}
		for _, r := range []io.Reader{strings.NewReader(input), iotest.HalfReader(strings.NewReader(input))} {
			if got, err := readLines(t, r); err != nil || !slices.Equal(got, want) {
				t.Fatalf("%q: %q, %v; want %q", input, got, err, want)
			}
		}
	})
}
