// Package child runs a program under a lock: in a process group of its own, with
// the terminal if we have it, and ended in time when the lock is.
//
// This package is part of the program zksh and may change at any time.
package child

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Spec describes a program to run while a lock is held.
type Spec struct {
	Argv         []string             // the program and its arguments; at least one word
	Env          []string             // NAME=value each, added to our own environment
	In, Out, Err *os.File             // standard files; nil means the null device
	Grace        time.Duration        // time between TERM and KILL
	Left         func() time.Duration // returns the time left of the lease; nil: no limit
	WaitGroup    bool                 // makes Run wait until the program's whole process group has ended
	Signals      *Listener            // receives signals for the program since before the lock was requested
	Alert        func(text string)    // prints a message for the user
}

// Errors of Run in addition to the status: the lease made zksh terminate the program, or
// some of its processes could not be terminated in time.
var (
	ErrOverdue = errors.New("the lease was about to expire, and zksh could not renew it in time")
	ErrEscaped = errors.New("zksh could not terminate all processes of the command in time")
)

// Run runs a program until it has ended, and returns its exit status: its own status, or
// 128+n for signal n. If the program could not be run, the error is a *StartError. The
// program runs in a process group of its own, which gets the terminal if we have it. The
// lock may be released once Run has returned, and not before.
//
// Run passes on INT, TERM, QUIT, HUP, USR1 and USR2 to the group. If one of the first four
// arrives before the start, the program is not started: the status is 128+n, and the error
// says so.
//
// A value on stop is a deadline. The group gets TERM at once. At the deadline or after
// Grace, whichever is sooner, all processes that the program has started get KILL. Run also
// kills the processes that are left when the program ends.
//
// Without a value on stop, Run leaves remaining processes alone, because they may be
// daemons that are meant to stay. It reports the remaining processes of the group, or waits
// for them if WaitGroup is set.
//
// Between us and the program is a keeper: another process of this very program, whose main
// must begin with Keeper. The keeper terminates the program in the same way if we die, or
// if we are suspended, at Grace before the end of the lease as reported by Left.
//
// The processes that Run can terminate depend on the system:
//
//   - On Linux, all descendants of the program, except as reported by Escape. The keeper
//     finds them in /proc, because orphans become its children. A control group, if the
//     keeper may create one, also kills the processes that it may not signal. If the keeper
//     itself is killed, only the program and its group are killed with it.
//   - On other Unix systems, the program's process group.
//   - Elsewhere the program alone, and not if we die.
func Run(spec Spec, stop <-chan time.Time) (status int, err error) {
	path, err := exec.LookPath(spec.Argv[0])
	if err != nil {
		return 0, newStartError(spec.Argv[0], err)
	}
	cmd := exec.Command(path)
	cmd.Args, cmd.Env = spec.Argv, append(os.Environ(), spec.Env...)
	files, closeFiles, err := spec.open()
	if err != nil {
		// The cause is plain text, because a missing /dev/null must not count as NotFound.
		return 0, &StartError{spec.Argv[0], errors.New(err.Error())}
	}
	defer closeFiles()
	return supervise(cmd, files, spec, stop)
}

// stillRunning returns a message about n running processes; n is -1 if their number is
// unknown.
func stillRunning(n int) string {
	switch n {
	case -1:
		return "processes of the command's process group are still running"
	case 1:
		return "1 process of the command's process group is still running"
	}
	return fmt.Sprintf("%d processes of the command's process group are still running", n)
}

// A StartError reports that a program could not be run.
type StartError struct {
	Name  string
	Cause error
}

func (e *StartError) Error() string {
	name := e.Name
	if name == "" {
		name = `""`
	}
	return fmt.Sprintf("cannot run %s: %s", name, e.Cause)
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Cause }

// NotFound reports whether the program does not exist, as opposed to a program that cannot
// be run.
func (e *StartError) NotFound() bool {
	return errors.Is(e.Cause, exec.ErrNotFound) || errors.Is(e.Cause, fs.ErrNotExist)
}

// newStartError returns a StartError without the parts of err that repeat its own text.
func newStartError(name string, err error) *StartError {
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		err = lookup.Err
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		err = number
	}
	return &StartError{name, err}
}

// open returns the program's standard files, and a function that closes those that it has
// opened.
func (s *Spec) open() (files []*os.File, closeFiles func(), err error) {
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
