package child

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// installForNobody copies the test binary, and setpriv with the set-uid bit, to a directory
// that every user can read. becomesRoot is a program that runs as root.
func installForNobody(t *testing.T) (self, becomesRoot string) {
	t.Helper()
	requireRoot(t)
	dir := t.TempDir()
	install := func(from, name string, mode os.FileMode) string {
		in, err := os.Open(from)
		zktest.Must(t, err)
		defer in.Close()
		out, err := os.Create(filepath.Join(dir, name))
		zktest.Must(t, err)
		_, err = io.Copy(out, in)
		if err = errors.Join(err, out.Chmod(mode), out.Close()); err != nil {
			t.Fatal(err)
		}
		return out.Name()
	}
	setpriv, err := exec.LookPath("setpriv")
	zktest.Must(t, err)
	for up := dir; up != os.TempDir(); up = filepath.Dir(up) {
		zktest.Must(t, os.Chmod(up, 0o755))
	}
	return install("/proc/self/exe", "zksh", 0o755), install(setpriv, "becomes-root", 0o755|os.ModeSetuid)
}

func asNobody(self string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.Path = self
		cmd.Env = append(cmd.Env, leaseVariable+"=8s")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

// zksh cannot terminate a program that becomes root, if zksh runs as an ordinary user.
// Escape reports that before the start, and Run reports ErrEscaped.
func TestEscape(t *testing.T) {
	self, becomesRoot := installForNobody(t)
	h := startHolder(t, becomesRoot+` --reuid 0 --keep-groups sleep 1000 & echo $!; echo $$; wait`, 2, asNobody(self))
	zktest.Eventually(t, "the alert", func() bool { return strings.Contains(h.stderr(), "cannot terminate") })
	zktest.Check(t, h.cmd.Wait())
	if got := h.stderr(); !strings.Contains(got, ErrEscaped.Error()) {
		t.Errorf("it said %q", got)
	}
	for name, want := range map[string]string{
		becomesRoot: "escape: " + becomesRoot + " was not started: it runs as another user (setuid)",
		"sleep":     "escape: <nil>",
		"missing":   "escape: <nil>",
	} {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), escapeVariable+"="+name)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		zktest.Must(t, err)
		if !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: %s; want %s", name, out, want)
		}
	}
	if err := Escape(becomesRoot); err != nil {
		t.Errorf("from root, too: %v", err)
	}
}

// A control group also terminates a program that becomes root.
func TestCgroup(t *testing.T) {
	self, becomesRoot := installForNobody(t)
	home, err := ownCgroup()
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	group, err := os.MkdirTemp(home, "zksh-test-")
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	t.Cleanup(func() { zktest.Eventually(t, "the group's end", func() bool { return os.Remove(group) == nil }) })
	for _, name := range []string{"", "cgroup.procs"} {
		zktest.Must(t, os.Chown(filepath.Join(group, name), nobody, nobody))
	}
	dir, err := os.Open(group)
	zktest.Must(t, err)
	defer dir.Close()
	h := startHolder(t, becomesRoot+` --reuid 0 --keep-groups sleep 1000 & echo $!; echo $$; wait`, 2, func(cmd *exec.Cmd) {
		asNobody(self)(cmd)
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	})
	zktest.Check(t, h.cmd.Wait())
	waitForAllGone(t, h.pids)
	if got := h.stderr(); !strings.Contains(got, ErrOverdue.Error()) {
		t.Errorf("it said %q", got)
	}
}

func TestGroupDir(t *testing.T) {
	const v2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	const hybrid = "31 23 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n40 23 0:28 /box /sys/fs/cgroup/unified rw - cgroup2 none rw\n"
	for name, c := range map[string]struct{ groups, mounts, want string }{
		"version 2": {"0::/user.slice/a.scope\n", v2, "/sys/fs/cgroup/user.slice/a.scope"},
		"both":      {"8:pids:/x\n0::/box/y\n", hybrid, "/sys/fs/cgroup/unified/y"},
		"elsewhere": {"0::/other\n", hybrid, ""},
		"version 1": {"8:pids:/x\n", hybrid, ""},
	} {
		got, err := cgroupDir(c.groups, c.mounts)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// No control group stays behind when the holder or the keeper is killed.
func TestNoCgroupStays(t *testing.T) {
	requireRoot(t)
	if _, err := ownCgroup(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	inner := os.Args[0] // starts another keeper within the program
	for name, kill := range map[string]func(h *holder){
		"the holder": func(h *holder) { h.signal(syscall.SIGKILL) },
		"the keeper": func(h *holder) {
			p, _ := readProcess(h.pids[0])
			zktest.Must(t, syscall.Kill(p.parent, syscall.SIGKILL))
		},
	} {
		h := startHolder(t, scriptVariable+`='echo $$; exec sleep 1000' `+inner+` & wait`, 1, nil)
		box := cgroupOf(t, h.pids[0])
		kill(h)
		waitForAllGone(t, h.pids)
		zktest.Eventually(t, name+" was killed: no control group of it stays", func() bool {
			_, err := os.Stat(filepath.Dir(box)) // the outer control group
			return errors.Is(err, os.ErrNotExist)
		})
	}
}

// cgroupOf returns the control group of a process that has one of its own.
func cgroupOf(t *testing.T, pid int) string {
	t.Helper()
	groups, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	zktest.Must(t, err)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	zktest.Must(t, err)
	box, err := cgroupDir(string(groups), string(mounts))
	if err != nil || !strings.HasPrefix(filepath.Base(box), cgroupPrefix) || !strings.HasPrefix(filepath.Base(filepath.Dir(box)), cgroupPrefix) {
		t.Skipf("SKIPPED: %s is no control group within one (%v)", box, err)
	}
	return box
}
