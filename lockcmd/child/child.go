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

// Spec is a program to run while a lock is held.
type Spec struct {
	Argv         []string             // the program and its arguments; at least one word
	Env          []string             // NAME=value each, added to our own
	In, Out, Err *os.File             // its standard files; nil is the null device
	Grace        time.Duration        // how long after TERM comes KILL
	Left         func() time.Duration // for how long anything of it may be there, as far as is known now; nil: for ever
	WaitGroup    bool                 // Run returns when all of its group have ended, not the program alone
	Signals      *Listener            // takes what is meant for it, since before the lock was asked for
	Alert        func(text string)    // tells what the person at the terminal must know
}

// The errors of Run, beside the status, when the lease ended the program or could
// not end it in time.
var (
	ErrOverdue = errors.New("the lease was about to expire, and zksh could not renew it in time")
	ErrEscaped = errors.New("zksh could not terminate all processes of the command in time")
)

// Run runs a program until it is gone, and returns its exit status: its own, or
// 128+n for a signal. The error is a *StartError if it could not be run. It runs
// in a process group of its own, which has the terminal if we have it.
//
// INT, TERM, QUIT, HUP, USR1 and USR2 are passed on to the group. When one of the
// first four has come before the start, the program is not started: the status is
// 128+n, and the error says so.
//
// A value on stop is a deadline: the group gets TERM now, and at that moment or
// after Grace, whichever is sooner, all that the program has started gets KILL.
// Whatever is left when the program has ended is then killed too. Without an order
// to stop it is left alone, since it may be a daemon that is meant to stay; what
// stays of the group is told, and waited for with WaitGroup.
//
// Between us and the program is a keeper: this very program, started once more,
// whose main must begin with Keeper. It ends the program in the same way when we
// die, and, while we stand still, Grace before what was Left has passed.
//
// What is ended depends on the system. On Linux it is all that descends from the
// program, wherever it has gone to, but for what Escape tells of: with /proc the
// keeper finds it, as the reaper of orphans, and a control group, where it may
// have one, kills also what it may not signal. When the keeper itself is killed,
// the program and its group are, not what has left that. On other Unix systems it
// is the process group; elsewhere the program alone, and not when we die.
//
// The lock may be released once Run has returned, and not before.
func Run(spec Spec, stop <-chan time.Time) (status int, err error) {
	path, err := exec.LookPath(spec.Argv[0])
	if err != nil {
		return 0, newStartError(spec.Argv[0], err)
	}
	cmd := exec.Command(path)
	cmd.Args, cmd.Env = spec.Argv, append(os.Environ(), spec.Env...)
	files, closeFiles, err := spec.open()
	if err != nil {
		return 0, &StartError{spec.Argv[0], errors.New(err.Error())} // that there is no /dev/null says nothing of the program
	}
	defer closeFiles()
	return supervise(cmd, files, spec, stop)
}

// goesOn says how many processes stay; -1 is any number.
func stillRunning(n int) string {
	switch n {
	case -1:
		return "processes of the command's process group are still running"
	case 1:
		return "1 process of the command's process group is still running"
	}
	return fmt.Sprintf("%d processes of the command's process group are still running", n)
}

// StartError says that a program could not be run.
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

// Unwrap gives the cause.
func (e *StartError) Unwrap() error { return e.Cause }

// NotFound tells that there is no such program, rather than one that cannot be run.
func (e *StartError) NotFound() bool {
	return errors.Is(e.Cause, exec.ErrNotFound) || errors.Is(e.Cause, fs.ErrNotExist)
}

// cannotRun takes what is said twice off an error.
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

// open gives the child's standard files.
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
