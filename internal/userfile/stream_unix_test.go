//go:build unix && !aix && !solaris

package userfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/zktest"
)

func TestStreamNames(t *testing.T) {
	dir := t.TempDir()
	for name, to := range map[string]string{"out": "/dev/stdout", "three": "/dev/fd/3", "again": "three", "file": "/etc/passwd", "loop": "loop"} {
		zktest.Must(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	for name, want := range map[string]int{
		"/dev/stdin":          0,
		"/dev/stdout":         1,
		"/dev/stderr":         2,
		"/dev//../dev/stderr": 2,
		"/dev/fd/1":           1,
		"/dev/fd/12":          12,
		"/proc/self/fd/2":     2,
		fmt.Sprintf("/proc/%d/fd/2", os.Getpid()):  2,
		fmt.Sprintf("/proc/%d/fd/2", os.Getppid()): -1,
		filepath.Join(dir, "out"):                  1,
		filepath.Join(dir, "again"):                3,
		filepath.Join(dir, "file"):                 -1,
		filepath.Join(dir, "loop"):                 -1,
		filepath.Join(dir, "none"):                 -1,
		"/dev/fd":                                  -1,
		"/dev/fd/x":                                -1,
		"/dev/fd/-1":                               -1,
		"/dev/fd/1/x":                              -1,
		"/dev/stdout2":                             -1,
		"/dev/null":                                -1,
		"dev/stdout":                               -1,
		"-":                                        -1,
		"":                                         -1,
		"/dev/fd/99999999999999999999999999999999999": -1,
	} {
		fd, is := streamOf(name)
		if is != (want >= 0) || is && fd != want || IsStream(name) != is || IsStdout(name) != (want == 1) {
			t.Errorf("%q: %d, %t; want %d", name, fd, is, want)
		}
	}
}

// A stream continues where it is: what the file behind it contains stays.
func TestStreamContinues(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	own, err := os.Create(file)
	zktest.Must(t, err)
	defer own.Close()
	if f, err := OpenToWrite(fmt.Sprintf("/dev/fd/%d", own.Fd()), 0, 0); err == nil || !strings.Contains(err.Error(), "bad file descriptor") {
		t.Errorf("a file that was not inherited: %v, %v", f, err)
	}
	inherited, err := unix.Dup(int(own.Fd())) // like an inherited file, it is not closed on exec
	zktest.Must(t, err)
	defer unix.Close(inherited)
	for _, name := range []string{fmt.Sprintf("/dev/fd/%d", inherited), fmt.Sprintf("/proc/self/fd/%d", inherited)} {
		_, err = own.WriteString("before\n")
		zktest.Must(t, err)
		f, err := OpenToWrite(name, os.O_CREATE|os.O_TRUNC, 0o600)
		zktest.Must(t, err)
		_, err = f.WriteString("inside\n")
		zktest.Must(t, err)
		zktest.Must(t, f.Close())
	}
	_, err = own.WriteString("after\n")
	zktest.Must(t, err)
	if got, err := os.ReadFile(file); err != nil || string(got) != "before\ninside\nbefore\ninside\nafter\n" {
		t.Errorf("%q, %v", got, err)
	}
	if f, err := OpenToWrite("/dev/fd/987", 0, 0); err == nil || !strings.Contains(err.Error(), "open /dev/fd/987: bad file descriptor") {
		t.Errorf("a file that is not open: %v, %v", f, err)
	}
}
