package child

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// A process is an entry of the process table.
type process struct {
	pid, parent, group int
	started            string // start time in ticks since boot; identifies a process together with pid
	ended              bool   // whether the process is a zombie
}

// listProcesses returns all processes.
func listProcesses() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var all []process
	for _, name := range names {
		if pid, numErr := strconv.Atoi(name); numErr == nil {
			if p, ok := readProcess(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all, err
}

// readProcess reads the process table entry of one process. It returns false if the process no
// longer exists.
func readProcess(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	line := string(stat)
	f := strings.Fields(line[strings.LastIndexByte(line, ')')+1:]) // skip the name in parentheses, which may contain any characters
	if len(f) < 20 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(f[1])
	group, err2 := strconv.Atoi(f[2])
	gone := f[0] == "Z" || f[0] == "X"
	return process{pid, parent, group, f[19], gone}, err1 == nil && err2 == nil
}

// countGroup returns the number of running processes in a process group.
func countGroup(group int) (n int) {
	all, err := listProcesses()
	if err != nil {
		return 0 // /proc is missing; Escape reports that
	}
	for _, p := range all {
		if p.group == group && !p.ended {
			n++
		}
	}
	return n
}

// descendants returns all descendants of the process root, its children first. No process can
// leave this tree, because orphans become children of the keeper.
func descendants(root int) ([]process, error) {
	all, err := listProcesses()
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	var found []process
	for next := children[root]; len(next) > 0; next = next[1:] {
		found = append(found, next[0])
		next = append(next, children[next[0].pid]...)
	}
	return found, err
}

// killTree sends SIGKILL once to all descendants of the process root, and returns how many were
// still running. The error says why some of them could not be killed.
func killTree(root int) (left int, err error) {
	found, err := descendants(root)
	for _, p := range found {
		if p.ended {
			continue
		}
		left++
		err = errors.Join(err, p.kill())
	}
	return left, err
}

// kill kills the process p. If p has ended and its pid now belongs to another process, kill does
// nothing.
func (p process) kill() error {
	handle, err := os.FindProcess(p.pid) // uses a pidfd if the kernel supports it
	if err != nil {
		return err
	}
	defer func() { _ = handle.Release() }() // cannot fail
	if same, ok := readProcess(p.pid); !ok || same.started != p.started {
		return nil
	}
	if err := handle.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// reapOrphans reaps orphans that have become children of the keeper, so that zombies do not
// accumulate. It does not reap the program itself, whose process id must stay reserved.
func reapOrphans(program int) {
	lists, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return // without /proc, zombies remain until the keeper exits
	}
	for _, thread := range lists {
		pids, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		if err != nil {
			continue // the thread has ended, or the kernel has no such file
		}
		for word := range strings.FieldsSeq(string(pids)) {
			if pid, err := strconv.Atoi(word); err == nil && pid != program {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // most of the children are still running
			}
		}
	}
}
