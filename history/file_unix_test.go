//go:build unix && !aix && !solaris

package history

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/userfile"
	"golang.org/x/sys/unix"
)

// roleVariable is an environment variable. It makes the test binary run as a child process with a
// role.
const roleVariable = "ZKSH_HISTORY_TEST_CHILD"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "append":
		err = appendChild(os.Args[1], os.Args[2], os.Args[3])
	case "full":
		err = fullChild(os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func childCommand(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

const linesPerChild = 500

// childLine returns line n of a child. Its length depends on n, so that a torn line is detected.
func childLine(id string, n int) string {
	return fmt.Sprintf("set /%s %d %s.", id, n, strings.Repeat("x", n%60))
}

// retryLock calls do again while another process holds the lock for too long. A shell would give up
// then, but on a busy machine this is not a failure of the test.
func retryLock(do func() error) error {
	for {
		if err := do(); err == nil || !strings.Contains(err.Error(), "another process has held it") {
			return err
		}
	}
}

// allLines returns all lines of the history while other processes use it.
func allLines(t *testing.T, f *File) (lines []string) {
	t.Helper()
	err := retryLock(func() (err error) {
		lines, err = linesOf(f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func appendChild(path, id, keep string) error {
	maxLines, err := strconv.Atoi(keep)
	if err != nil {
		return err
	}
	// Wait until the parent closes the pipe, so that all children begin at the same time.
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	// Open the file again from time to time, as new shells do, because trimming replaces it.
	var f *File
	for n := range linesPerChild {
		if n%100 == 0 {
			if f, err = Open(path, maxLines); err != nil {
				return err
			}
			defer f.Close()
		}
		if err := retryLock(func() error { return f.Append(Entry{Line: childLine(id, n), Place: id}) }); err != nil {
			return err
		}
	}
	return nil
}

func TestManyShellsAppend(t *testing.T) {
	for name, keep := range map[string]int{"without trimming": 4 * linesPerChild, "with trimming": 60} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "history")
			var children []*exec.Cmd
			var starts []io.Closer
			for i := range 4 {
				cmd := childCommand("append", path, strconv.Itoa(i), strconv.Itoa(keep))
				start, err := cmd.StdinPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				children, starts = append(children, cmd), append(starts, start)
			}
			for _, start := range starts {
				if err := start.Close(); err != nil {
					t.Fatal(err)
				}
			}
			f := mustOpen(t, path, keep)
			for range 50 {
				checkChildLines(t, allLines(t, f))
			}
			for _, cmd := range children {
				if err := cmd.Wait(); err != nil {
					t.Fatal(err)
				}
			}
			lines, err := linesOf(mustOpen(t, path, keep))
			if err != nil || len(lines) != keep {
				t.Fatalf("%d lines, %v; want %d", len(lines), err, keep)
			}
			for id, last := range checkChildLines(t, lines) {
				if last != linesPerChild-1 {
					t.Errorf("the last line of child %s is %d", id, last)
				}
			}
		})
	}
}

var childLineForm = regexp.MustCompile(`^set /(\d) (\d+) x*\.$`)

// checkChildLines checks that no line is torn, and that the lines of each child are in order without
// gaps. It returns the number of the last line of each child.
func checkChildLines(t *testing.T, lines []string) map[string]int {
	t.Helper()
	last := map[string]int{}
	for _, line := range lines {
		m := childLineForm.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("torn line %q", line)
		}
		n, err := strconv.Atoi(m[2])
		if err != nil || line != childLine(m[1], n) {
			t.Fatalf("torn line %q", line)
		}
		if before, ok := last[m[1]]; ok && n != before+1 {
			t.Fatalf("child %s: line %d follows line %d", m[1], n, before)
		}
		last[m[1]] = n
	}
	return last
}

// fullChild appends lines until a write fails in the middle of a line, because of a limit on the size
// of files, as on a full disk. Then it raises the limit and appends another line.
func fullChild(path string) error {
	f, err := Open(path, 1000)
	if err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	room := limit
	limit.Cur = 40
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for n := range 5 {
		if err := f.Append(Entry{Line: fmt.Sprintf("get /node%d", n)}); (err != nil) != (n >= 2) {
			return fmt.Errorf("line %d: %v", n, err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &room); err != nil {
		return err
	}
	return f.Append(Entry{Line: "ls /"})
}

func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	if err := childCommand("full", path).Run(); err != nil {
		t.Fatal(err)
	}
	if got, want := content(t, path), "#0 0 \tget /node0\n#0 0 \tget /node1\n#0 0 \tls /\n"; got != want {
		t.Errorf("the file holds %q; want %q", got, want)
	}
}

func TestPermissions(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	dir := filepath.Join(t.TempDir(), "new", "newer")
	path := filepath.Join(dir, "history")
	mode := func(path string) os.FileMode {
		t.Helper()
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	f := mustOpen(t, path, 1)
	for path, want := range map[string]os.FileMode{filepath.Dir(dir): 0o700, dir: 0o700, path: 0o600} {
		if got := mode(path); got != want {
			t.Errorf("%s has mode %o; want %o", path, got, want)
		}
	}
	mustAppend(t, f, "one", "two", "three") // trims the file
	if got := mode(path); got != 0o600 {
		t.Errorf("trimmed file has mode %o", got)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	checkLines(t, mustOpen(t, path, 5), "three")
	if got := mode(path); got != 0o600 {
		t.Errorf("file that was open to all has mode %o", got)
	}
}

func TestFileOfAnotherUser(t *testing.T) {
	path := "/etc/passwd"
	if os.Geteuid() == 0 {
		path = filepath.Join(t.TempDir(), "history")
		if err := errors.Join(os.WriteFile(path, nil, 0o666), os.Chown(path, 12345, -1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(path, 1); err == nil || !strings.Contains(err.Error(), "belongs to another user (uid ") {
		t.Errorf("Open: %v", err)
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "history"), filepath.Join(dir, "sub", "history")} {
		if _, err := Open(path, 1); !errors.Is(err, os.ErrPermission) {
			t.Errorf("Open(%s): %v", path, err)
		}
	}
}

// Open fails for a FIFO. It does not block although the FIFO has no writer.
func TestFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, 1); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("Open: %v", err)
	}
}

// A shell that was stopped while it held the lock does not block other shells for ever.
func TestLockWaitsOnlySoLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	f, g := mustOpen(t, path, 1), mustOpen(t, path, 1)
	if err := userfile.LockSoon(g.f); err != nil {
		t.Fatal(err)
	}
	err := f.Append(Entry{Line: "ls /"})
	if err == nil || !strings.Contains(err.Error(), "another process has held it") {
		t.Errorf("Append: %v", err)
	}
	if err := userfile.Unlock(g.f); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, f, "ls /")
	checkLines(t, g, "ls /")
}

func TestFileIsReplacedUnderneath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	f := mustOpen(t, path, 10)
	mustAppend(t, f, "one")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, f, "one")
	checkLines(t, f, "one")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, f, "one")
	checkLines(t, f, "one")
	if err := os.Rename(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path+"2", path); err != nil {
		t.Fatal(err)
	}
	if err := f.Append(Entry{Line: "two"}); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
		t.Errorf("Append through a symbolic link: %v", err)
	}
	if got := content(t, path+"2"); got != "#0 0 \tone\n" {
		t.Errorf("the file behind the link holds %q", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file, link, sub := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "sub")
	mustAppend(t, mustOpen(t, file, 1), "ls /")
	if err := errors.Join(os.Symlink(file, link), os.Mkdir(sub, 0o755)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		link:                              "is a symbolic link",
		sub:                               "is a directory",
		os.DevNull:                        "is not a regular file",
		filepath.Join(file, "x"):          "not a directory",
		filepath.Join(file, "x", "y"):     "not a directory",
		filepath.Join(dir, "nul\x00", ""): "invalid argument",
	} {
		f, err := Open(path, 1)
		if err == nil || !strings.Contains(err.Error(), want) || f != nil {
			t.Errorf("Open(%q) = %v, %v; want an error with %q", path, f, err, want)
		}
	}
	if f, err := Open(file, 0); err == nil || f != nil {
		t.Errorf("Open for no lines = %v, %v", f, err)
	}
}
