package child

import (
	"os"
	"strconv"
	"strings"
)

// process is one line of the table of processes.
type process struct {
	pid, parent, group int
	started            string // in ticks since boot; with pid it names one process for ever
	gone               bool   // ended; only its parent has not asked yet
}

// processes lists all that are there.
func processes() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var all []process
	for _, name := range names {
		if pid, numErr := strconv.Atoi(name); numErr == nil {
			if p, ok := look(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all, err
}

// look reads the line of one process; there is none of one that has vanished.
func look(pid int) (process, bool) {
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

// members counts the processes of a group that still do something.
func members(group int) (n int, err error) {
	all, err := processes()
	for _, p := range all {
		if p.group == group && !p.gone {
			n++
		}
	}
	return n, err
}

// groupIsGone tells whether nothing of a group does anything any more.
func groupIsGone(group int) bool {
	n, err := members(group)
	return err == nil && n == 0
}
