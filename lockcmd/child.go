package lockcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/zksh/zksh/commands"
)

// childSpec is a program to run while a lock is held.
type childSpec struct {
	Argv    []string // the program and its arguments; at least one word
	Env     []string // NAME=value each, added to our own
	Streams commands.Streams
	Grace   time.Duration     // how long after TERM comes KILL
	Alert   func(text string) // tells what the person at the terminal must know
}

// The statuses of a program that could not be run, as a shell gives them.
const (
	statusNotRunnable = 126
	statusNotFound    = 127
)

// runChild runs a program until it is gone, and returns its exit status: its own,
// 128+n for a signal, 126 or 127 when it could not be run; then the error says
// why. It runs in a process group of its own, which has the terminal if we have
// it.
//
// INT, TERM, QUIT and HUP are passed on to the group. A value on stop is a
// deadline: the group gets TERM now, and KILL at that moment or after Grace,
// whichever is sooner. Whatever of the group is left when the program has ended
// is then killed too; without an order to stop it is left alone, since it may be
// a daemon that is meant to stay. Neither reaches a process that has made a
// group of its own. On Linux the program is killed when we die in any way.
//
// The lock may be released once runChild has returned, and not before.
func runChild(spec childSpec, stop <-chan time.Time) (status int, err error) {
	path, err := exec.LookPath(spec.Argv[0])
	if err != nil {
		return cannotRun(spec.Argv[0], err)
	}
	cmd := exec.Command(path)
	cmd.Args, cmd.Env = spec.Argv, append(os.Environ(), spec.Env...)
	files, closeFiles, err := openStreams(spec.Streams)
	if err != nil {
		return cannotRun(spec.Argv[0], err)
	}
	defer closeFiles()
	return superviseChild(cmd, files, spec, stop)
}

// cannotRun gives the status and the error of a program that could not be started.
func cannotRun(name string, err error) (int, error) {
	status := statusNotRunnable
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		status = statusNotFound
	}
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		err = lookup.Err
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		err = number
	}
	if name == "" {
		name = `""`
	}
	return status, fmt.Errorf("cannot run %s: %w", name, err)
}

// openStreams gives the child's standard files. What it has none of is the null
// device.
func openStreams(s commands.Streams) (files []*os.File, closeFiles func(), err error) {
	files = []*os.File{s.In, s.Out, s.Err}
	closeFiles = func() {}
	if s.In != nil && s.Out != nil && s.Err != nil {
		return files, closeFiles, nil
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, closeFiles, err
	}
	for i, f := range files {
		if f == nil {
			files[i] = null
		}
	}
	return files, func() { null.Close() }, nil
}
