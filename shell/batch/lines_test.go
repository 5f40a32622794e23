package batch

import (
	"errors"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

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
	for _, end := range []string{"\n", "\r\n"} {
		in := newLineReader(strings.NewReader("a" + end + full + "y" + end + "b" + end + full + "y"))
		for i, want := range []struct {
			line string
			err  error
		}{{"a", nil}, {"", errLongLine}, {"b", nil}, {"", errLongLine}, {"", io.EOF}, {"", io.EOF}} {
			line, number, err := in.Next()
			if line != want.line || err != want.err || number != min(i+1, 4) {
				t.Errorf("%d with %q: %.10q, %d, %v; want %q, %v", i+1, end, line, number, err, want.line, want.err)
			}
		}
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
