package child

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// box is a control group (version 2) for the program alone. The kernel kills all
// that is in it with one write, whatever user it runs as and however it forks.
type cgroup struct {
	name string
	dir  *os.File
}

// boxName is how their names begin.
const cgroupPrefix = "zksh-lock-"

// newBox makes one below our own; nil where that is not permitted.
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
	if _, err = os.Stat(filepath.Join(name, "cgroup.kill")); err == nil { // Linux 5.14
		b.dir, err = os.Open(name)
	}
	if err != nil {
		b.release()
		return nil
	}
	return b
}

// path is its directory, or empty.
func (b *cgroup) path() string {
	if b == nil {
		return ""
	}
	return b.name
}

// take has a program start in the box.
func (b *cgroup) attach(attr *syscall.SysProcAttr) {
	if b != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(b.dir.Fd())
	}
}

// empty tells that nothing in the box does anything any more, as far as it knows.
func (b *cgroup) isEmpty() bool {
	if b == nil {
		return false
	}
	pids, err := os.ReadFile(filepath.Join(b.name, "cgroup.procs")) // without those that have ended
	return err == nil && len(pids) == 0
}

// open lets go of what is left in the box, and removes it.
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
			_ = os.WriteFile(home, []byte(pid), 0) // it may have ended; else it stays, and the box with it
		}
	}
	removeCgroup(b.name)
}

// removeBox removes a box in which nothing is left, and those in it whose keepers
// were killed. An empty one that stays does no harm.
func removeCgroup(name string) {
	if name == "" {
		return
	}
	inner, err := filepath.Glob(filepath.Join(name, cgroupPrefix+"*"))
	if err == nil { // it is a pattern
		for _, dir := range inner {
			removeCgroup(dir)
		}
	}
	poll(settleLimit, func() bool { // what was killed may be in it for a moment
		err := os.Remove(name)
		return err == nil || errors.Is(err, os.ErrNotExist)
	})
}

// killBox kills all that is in a box.
func killCgroup(name string) error {
	if name == "" {
		return nil
	}
	err := os.WriteFile(filepath.Join(name, "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has been removed
	}
	return err
}

// mayBox reports whether newBox would make one.
func canCreateCgroup() bool {
	home, err := ownCgroup()
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(home, "cgroup.kill")) // the root group has none, and needs none: only root may write there
	return err == nil && unix.Access(home, unix.W_OK) == nil &&
		unix.Access(filepath.Join(home, "cgroup.procs"), unix.W_OK) == nil
}

// ownGroup is the directory of the control group that we are in.
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

// groupDir finds it in what the kernel says of our groups and of what is mounted.
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
