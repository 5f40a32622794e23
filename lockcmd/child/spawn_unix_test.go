//go:build unix && !aix && !solaris

package child

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/zktest"
)

// No byte of an argument, of the path or of a file name changes.
func TestArgumentsAreBytes(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "d\xff", "p\xe9")
	zktest.Must(t, os.Mkdir(filepath.Dir(program), 0o755))
	zktest.Must(t, os.WriteFile(program, []byte(`for a; do printf '<%s>' "$a"; done`), 0o755))
	args := []string{"caf\xe9", "\xff\xed\xa0\x80", "", "*", "-n", "--", "a b", "new\nline"}
	s := newScript(t, "")
	s.spec.Argv = append([]string{program}, args...)
	s.start().wait()
	if want := "<" + strings.Join(args, "><") + ">"; s.printed() != want {
		t.Errorf("%q, want %q", s.printed(), want)
	}
}

// Files without #! run in a shell, also the empty file.
func TestFileWithoutInterpreter(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"plain": "exit 4", "comment": "# a script\nexit 4", "blank": " #!/bin/false\nexit 4", "empty": ""} {
		file := filepath.Join(dir, name)
		zktest.Must(t, os.WriteFile(file, []byte(text), 0o755))
		s := newScript(t, "")
		s.spec.Argv = []string{file}
		if got := s.start().wait(); got != 4 && text != "" || got != 0 && text == "" {
			t.Errorf("%s: status %d, printed %q", name, got, s.printed())
		}
	}
}

// The program is searched in the folders of PATH as execvp does.
func TestSearchPath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	zktest.Must(t, os.Mkdir("denied", 0o755))
	zktest.Must(t, os.WriteFile("denied/prog", nil, 0o644))
	zktest.Must(t, os.WriteFile("prog", []byte("exit 4"), 0o755))
	for path, want := range map[string]int{
		".:/bin": 4, "/bin::/none": 4, "/bin:": 4, "": 4, "denied:" + dir: 4, "prog:" + dir: 4, // a file among the folders is skipped
		"denied": 126, "/none": 127,
	} {
		t.Setenv("PATH", path)
		s := newScript(t, "")
		s.spec.Argv, s.wantErr = []string{"prog"}, want > 125
		got := s.start().wait()
		var start *StartError
		if errors.As(s.err, &start) {
			if got = 126; start.NotFound() {
				got = 127
			}
		}
		if got != want {
			t.Errorf("PATH=%s: status %d, %v; want %d", path, got, s.err, want)
		}
	}
	zktest.Must(t, os.Unsetenv("PATH"))
	s := newScript(t, "exit 4")
	s.spec.Argv[0] = "sh"
	if got := s.start().wait(); got != 4 {
		t.Errorf("without PATH: status %d", got)
	}
}

// A folder of PATH without the program costs no process.
func TestSearchStartsNoProcess(t *testing.T) {
	t.Setenv("PATH", strings.Repeat("/none:", 50)+"/bin")
	ended := make(chan os.Signal, 100)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	pid, err := spawn([]string{"sh", "-c", ":"}, &syscall.ProcAttr{})
	zktest.Must(t, err)
	_, err = syscall.Wait4(pid, nil, 0, nil)
	zktest.Must(t, err)
	zktest.Eventually(t, "the end of the program", func() bool { return len(ended) > 0 })
	if n := len(ended); n > 1 {
		t.Errorf("%d processes have ended", n)
	}
}

// The program inherits all open files with their numbers, and no other ones.
func TestFilesAreInherited(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("SKIPPED: the test needs /proc")
	}
	for _, fd := range []int{23, 63} {
		zktest.Must(t, unix.Dup2(1, fd))
		defer syscall.Close(fd)
	}
	plain, err := exec.Command("sh", "-c", "exec ls /proc/self/fd").Output()
	zktest.Must(t, err)
	s := newScript(t, "")
	s.spec.Argv = []string{"ls", "/proc/self/fd"}
	s.start().wait()
	if got := s.printed(); got != string(plain) || !strings.Contains(got, "\n63\n") {
		t.Errorf("files %q, without the lock %q", got, plain)
	}
}
