package history

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func mustOpen(t *testing.T, path string, max int) *File {
	t.Helper()
	f, err := Open(path, max)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func mustAppend(t *testing.T, f *File, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if err := f.Append(line); err != nil {
			t.Fatalf("Append(%q): %v", line, err)
		}
	}
}

// checkLines checks the lines that f.Lines returns.
func checkLines(t *testing.T, f *File, want ...string) {
	t.Helper()
	if got, err := f.Lines(); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%d lines %.200q, %v; want %d lines %.200q", len(got), got, err, len(want), want)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFileKeepsLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "history")
	f := mustOpen(t, path, 10)
	checkLines(t, f)
	mustAppend(t, f, "ls /", "ls /", "", " ls /private", "addauth digest u:p", "ls /", "get /é\xff", "ls /", strings.Repeat("x", maxLine+1))
	checkLines(t, f, "ls /", "get /é\xff", "ls /")
	for _, line := range []string{"a\nb", "a\r", "addauth digest u:p\n"} {
		if err := f.Append(line); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("Append(%q) = %v", line, err)
		}
	}

	// Another shell opens the file, and keeps fewer lines.
	g := mustOpen(t, path, 2)
	mustAppend(t, g, "ls /")
	checkLines(t, g, "get /é\xff", "ls /")
	mustAppend(t, g, "quit")
	mustAppend(t, f, "quit")
	checkLines(t, f, "ls /", "get /é\xff", "ls /", "quit")

	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if err := f.Append("ls /"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
	if _, err := f.Lines(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Lines after Close: %v", err)
	}
}

func TestFileIsTrimmed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	f, g := mustOpen(t, path, 5), mustOpen(t, path, 5)
	var all []string
	for i := range 30 {
		all = append(all, fmt.Sprintf("get /%d", i))
		mustAppend(t, []*File{f, g}[i%2], all[i])
		for _, reader := range []*File{f, g, mustOpen(t, path, 5)} {
			checkLines(t, reader, all[max(0, len(all)-5):]...)
		}
		if n := strings.Count(content(t, path), "\n"); n > 10 {
			t.Fatalf("%d lines in the file", n)
		}
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || left != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestFileOfLongLinesIsTrimmed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	f := mustOpen(t, path, 1000)
	var all []string
	for i := range 2 * maxBytes / maxLine {
		all = append(all, fmt.Sprintf("set /%d %s", i, strings.Repeat("x", maxLine-100)))
		mustAppend(t, f, all[i])
		if info, err := os.Stat(path); err != nil || info.Size() > maxBytes {
			t.Fatalf("%v, %v", info, err)
		}
	}
	got, err := f.Lines()
	if err != nil || len(got) < maxBytes/2/maxLine || !slices.Equal(got, all[len(all)-len(got):]) {
		t.Fatalf("%d lines, %v", len(got), err)
	}
}

// A file that another program has written, or that is much too long, can be used.
func TestForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	for before, want := range map[string][]string{
		"":                                {"new"},
		"one\ntwo":                        {"one", "two", "new"},
		"one\n\n":                         {"one", "", "new"},
		"new\n":                           {"new"},
		strings.Repeat("x", maxBytes+100): {"new"},
		"gone\n" + strings.Repeat("twelve bytes\n", maxBytes/4): {"twelve bytes", "twelve bytes", "new"},
	} {
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		f := mustOpen(t, path, len(want))
		mustAppend(t, f, "new")
		checkLines(t, f, want...)
		if n := len(content(t, path)); n > maxBytes {
			t.Errorf("%d bytes in the file", n)
		}
	}
}
