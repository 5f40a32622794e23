// Package child runs a program while zksh holds a lock. The program runs in its own process group.
// If zksh is in the foreground of the terminal, it hands the foreground to the program. The caller
// of Run decides when the program must terminate. If zksh itself is stopped or dies, the keeper, a
// small process, makes the same decision (keeper.go). Begin reading at Run.
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
	Argv         []string             // the program and its arguments; never empty
	Env          []string             // variables in the form NAME=value, added to the environment of zksh
	In, Out, Err *os.File             // standard files; nil means the null device
	Grace        time.Duration        // maximum time between SIGTERM and SIGKILL
	Left         func() time.Duration // returns the remaining time of the lease; nil means no limit
	Signals      *Listener            // receives signals for the program; opened before the lock is requested
	Alert        func(text string)    // prints a message for the user
}

// Errors that Run returns in addition to the exit status: zksh terminated the program because
// the lease was about to expire, or could not terminate some of its processes in time.
var (
	ErrOverdue = errors.New("the lease was about to expire, and zksh could not renew it in time")
	ErrEscaped = errors.New("zksh could not terminate all processes of the command in time")
)

// Run runs a program until it has ended, and returns its exit status, or 128+n if signal n
// has killed the program. If the program could not be run, the error is a *StartError. The
// program runs in its own process group, which gets the terminal if zksh has it. The caller
// must not release the lock before Run has returned.
//
// Run passes on INT, TERM, QUIT, HUP, USR1 and USR2 to the group. If one of the first four
// arrives before the start, the program is not started: the status is 128+n, and the error
// says so.
//
// A value on stop is a deadline. The group receives TERM at once. At the deadline or after
// Grace, whichever is sooner, all processes that the program has started receive KILL. Run
// also kills the processes that remain when the program has ended.
//
// Without a value on stop, Run leaves remaining processes alone, because they may be
// daemons that are meant to stay. It reports how many processes of the group remain.
//
// The parent of the program is a keeper: another process of the zksh executable, whose main
// must begin with a call of Keeper. If zksh dies, the keeper terminates the program in the
// same way. If zksh is suspended, the keeper terminates the program Grace before the end of
// the lease, as last reported by Left.
//
// The processes that Run can terminate depend on the system:
//
//   - On Linux, all descendants of the program that the keeper is permitted to signal. The
//     keeper finds them in /proc, because orphans become its children. If the keeper is
//     permitted to create a control group, it kills all descendants. If the keeper itself is
//     killed, only the program and its group are killed with it.
//   - On other Unix systems, the program's process group.
//   - On all other systems, only the program, and not if zksh dies.
func Run(spec Spec, stop <-chan time.Time) (status int, err error) {
	path, err := exec.LookPath(spec.Argv[0])
	if err != nil {
		return 0, newStartError(spec.Argv[0], err)
	}
	cmd := exec.Command(path)
	cmd.Args, cmd.Env = spec.Argv, append(os.Environ(), spec.Env...)
	files, closeFiles, err := spec.open()
	if err != nil {
		// Keep only the text of the error. StartError.NotFound must not return true if only
		// /dev/null is missing.
		return 0, &StartError{spec.Argv[0], errors.New(err.Error())}
	}
	defer closeFiles()
	return supervise(cmd, files, spec, stop)
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

// Unwrap returns the cause of the error.
func (e *StartError) Unwrap() error { return e.Cause }

// NotFound reports whether the program does not exist. It returns false if the program exists
// but cannot be run.
func (e *StartError) NotFound() bool {
	return errors.Is(e.Cause, exec.ErrNotFound) || errors.Is(e.Cause, fs.ErrNotExist)
}

// newStartError returns a StartError with the cause err. It removes the parts of err that
// StartError.Error adds itself.
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

// open returns the program's standard files, with the null device in place of nil. closeFiles
// closes the null device if open has opened it.
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
