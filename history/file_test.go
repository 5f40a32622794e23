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
		if err := f.Append(Entry{Line: line}); err != nil {
			t.Fatalf("Append(%q): %v", line, err)
		}
	}
}

// checkLines checks the lines that f.Entries returns.
func checkLines(t *testing.T, f *File, want ...string) {
	t.Helper()
	if got, err := linesOf(f); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%d lines %.200q, %v; want %d lines %.200q", len(got), got, err, len(want), want)
	}
}

// linesOf returns the text of the entries of f.
func linesOf(f *File) (lines []string, err error) {
	entries, err := f.Entries()
	for _, e := range entries {
		lines = append(lines, e.Line)
	}
	return lines, err
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
		if err := f.Append(Entry{Line: line}); err == nil || strings.Contains(err.Error(), "u:p") {
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
	if err := f.Append(Entry{Line: "ls /"}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
	if _, err := f.Entries(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Entries after Close: %v", err)
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
	got, err := linesOf(f)
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

// Old files contain only lines. New entries follow them in the same file, and all are read.
func TestEntries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	old := "get /a\n#not an entry\n#1 2 \n#x 0 p\tl\n# 1\t2\n"
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, path, 100)
	added := []Entry{
		{"get /a", "@prod", 1764153000, 0},
		{"get /a", "zk1:2181,zk2:2181/app one", 1764153001, 1},
		{"set /a 'x\ty'", "", 1764153002, UnknownStatus},
		{"ls /", "odd\tpl\nace", 1764153003, 0},
		{"ls /b", "digest:super:secret@host:2181", 1764153004, 64},
	}
	for _, e := range added {
		if err := f.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	again := added[4]
	again.Time++
	if err := f.Append(again); err != nil { // only the time differs from that of the last entry
		t.Fatal(err)
	}
	added[3].Place, added[4].Place = "odd?pl?ace", ""
	var want []Entry
	for line := range strings.Lines(old) {
		want = append(want, Entry{Line: strings.TrimSuffix(line, "\n"), Status: UnknownStatus})
	}
	want = append(want, added...)
	got, err := mustOpen(t, path, 100).Entries()
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if text := content(t, path); !strings.HasPrefix(text, old+"#1764153000 0 @prod\tget /a\n") || strings.Contains(text, "secret") {
		t.Errorf("the file is %q", text)
	}
}
