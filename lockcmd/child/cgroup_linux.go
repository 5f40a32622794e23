package child

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A cgroup is a control group (version 2) that contains only the program and its descendants. A
// single write to the file cgroup.kill makes the kernel kill all of them, even if they run as
// other users or keep forking.
type cgroup struct {
	name string
	dir  *os.File
}

// cgroupPrefix is the prefix of the names of the control groups that keepers create.
const cgroupPrefix = "zksh-lock-"

// newCgroup creates a control group below the control group of this process. It returns nil if
// it cannot.
func newCgroup() *cgroup {
	home, err := ownCgroup()
	if err != nil {
		return nil
	}
	name, err := os.MkdirTemp(home, cgroupPrefix)
	if err != nil {
		return nil
	}
	b := &cgroup{name: name}
	if _, err = os.Stat(filepath.Join(name, "cgroup.kill")); err == nil { // requires Linux 5.14
		b.dir, err = os.Open(name)
	}
	if err != nil {
		b.release()
		return nil
	}
	return b
}

// path returns the directory of the control group, or an empty string if the group was not created
// (b is nil).
func (b *cgroup) path() string {
	if b == nil {
		return ""
	}
	return b.name
}

// attach sets attr so that a program starts in the control group. It does nothing if the group was
// not created (b is nil).
func (b *cgroup) attach(attr *syscall.SysProcAttr) {
	if b != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(b.dir.Fd())
	}
}

// isEmpty reports whether the control group exists and contains no running process.
func (b *cgroup) isEmpty() bool {
	if b == nil {
		return false
	}
	pids, err := os.ReadFile(filepath.Join(b.name, "cgroup.procs")) // cgroup.procs does not list zombies
	return err == nil && len(pids) == 0
}

// release moves the remaining processes to the parent control group, and removes this control
// group.
func (b *cgroup) release() {
	if b == nil {
		return
	}
	if b.dir != nil {
		b.dir.Close()
	}
	pids, err := os.ReadFile(filepath.Join(b.name, "cgroup.procs"))
	if err == nil {
		home := filepath.Join(filepath.Dir(b.name), "cgroup.procs")
		for pid := range strings.FieldsSeq(string(pids)) {
			// Ignore the error. It usually means that the process has ended. Otherwise, the process
			// stays in the control group, and removeCgroup cannot remove the group.
			_ = os.WriteFile(home, []byte(pid), 0)
		}
	}
	removeCgroup(b.name)
}

// removeCgroup removes a control group that contains no more processes. It also removes the
// groups inside it that killed keepers have left behind. An empty group that cannot be removed
// does no harm.
func removeCgroup(name string) {
	if name == "" {
		return
	}
	inner, err := filepath.Glob(filepath.Join(name, cgroupPrefix+"*"))
	if err == nil { // the pattern is valid, so err is always nil
		for _, dir := range inner {
			removeCgroup(dir)
		}
	}
	poll(settleLimit, func() bool { // killed processes may remain in the group for a moment
		err := os.Remove(name)
		return err == nil || errors.Is(err, os.ErrNotExist)
	})
}

// killCgroup kills all processes in a control group. It does nothing if name is empty.
func killCgroup(name string) error {
	if name == "" {
		return nil
	}
	err := os.WriteFile(filepath.Join(name, "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the group has already been removed
	}
	return err
}

// canCreateCgroup reports whether newCgroup would succeed.
func canCreateCgroup() bool {
	home, err := ownCgroup()
	if err != nil {
		return false
	}
	// This fails for the root group, which has no cgroup.kill. That does not matter, because only
	// root could create a group there.
	_, err = os.Stat(filepath.Join(home, "cgroup.kill"))
	return err == nil && unix.Access(home, unix.W_OK) == nil &&
		unix.Access(filepath.Join(home, "cgroup.procs"), unix.W_OK) == nil
}

// ownCgroup returns the directory of the control group of this process.
func ownCgroup() (string, error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return cgroupDir(string(groups), string(mounts))
}

// cgroupDir returns the directory of the control group of this process, given the contents of
// /proc/self/cgroup and /proc/self/mountinfo.
func cgroupDir(groups, mounts string) (string, error) {
	for group := range strings.Lines(groups) {
		name, v2 := strings.CutPrefix(strings.TrimSpace(group), "0::")
		if !v2 {
			continue
		}
		for mount := range strings.Lines(mounts) {
			ours, kind, _ := strings.Cut(mount, " - ")
			f := strings.Fields(ours)
			if len(f) < 5 || !strings.HasPrefix(kind, "cgroup2 ") {
				continue
			}
			if below, inside := strings.CutPrefix(name, strings.TrimSuffix(f[3], "/")); inside && !strings.Contains(f[4], `\`) {
				return filepath.Join(f[4], below), nil
			}
		}
	}
	return "", errors.New("no cgroup of version 2")
}
