package child

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// process is one line of the table of processes.
type process struct {
	pid, parent, group int
	started            string // in ticks since boot; with pid it names one process for ever
	ended              bool   // ended; only its parent has not asked yet
}

// processes lists all that are there.
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

// look reads the line of one process; there is none of one that has vanished.
func readProcess(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	line := string(stat)
	f := strings.Fields(line[strings.LastIndexByte(line, ')')+1:]) // the name before may have anything in it
	if len(f) < 20 {
		return process{}, false
	}
	parent, err1 := strconv.Atoi(f[1])
	group, err2 := strconv.Atoi(f[2])
	gone := f[0] == "Z" || f[0] == "X"
	return process{pid, parent, group, f[19], gone}, err1 == nil && err2 == nil
}

// count counts the processes of a group that still do something.
func countGroup(group int) (n int) {
	all, err := listProcesses()
	if err != nil {
		return 0 // Escape has told that there is no such table
	}
	for _, p := range all {
		if p.group == group && !p.ended {
			n++
		}
	}
	return n
}

// descendants are those that a process has started, and theirs, the nearest first.
// With the keeper as the reaper of orphans nobody gets out of this tree.
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

// killTree kills what descends from a process, once, and counts what was there and
// not ended yet. The error tells why one of them could not be killed.
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

// kill kills the process it is, and no other one that got its number meanwhile.
func (p process) kill() error {
	handle, err := os.FindProcess(p.pid) // by a descriptor, where the system has them
	if err != nil {
		return err
	}
	defer func() { _ = handle.Release() }() // which cannot fail
	if same, ok := readProcess(p.pid); !ok || same.started != p.started {
		return nil
	}
	if err := handle.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// reapOrphans takes leave of those that came to us when their parents ended, so
// that they do not pile up. The program itself is left: its number must stay.
func reapOrphans(program int) {
	lists, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return // they stay until we end
	}
	for _, thread := range lists {
		pids, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		if err != nil {
			continue // the thread has ended, or the kernel has no such lists
		}
		for word := range strings.FieldsSeq(string(pids)) {
			if pid, err := strconv.Atoi(word); err == nil && pid != program {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // most have not ended
			}
		}
	}
}
