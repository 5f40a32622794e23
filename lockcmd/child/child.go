// Package child runs a program while zksh holds a lock. The program sees the same world as without the lock,
// and nothing that it has started is alive when another client can hold the lock.
//
// On Unix, there are three processes: zksh, the keeper and the program. The keeper is a process of the zksh
// executable, and knows one number: the time by which everything below it must be dead. The caller of Run
// decides when the program must terminate. If zksh is stopped or dies, the keeper decides in the same way.
//
// Begin reading at Run, then read host_unix.go for the side of zksh, and keeper_unix.go for the keeper.
//
// This package is part of the program zksh and may change at any time.
package child

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"time"
)

// Spec describes a program to run while a lock is held.
type Spec struct {
	Argv         []string             // the program and its arguments; never empty
	Env          []string             // variables in the form NAME=value, added to the environment of zksh
	In, Out, Err *os.File             // standard files; In may be nil, which means the null device
	Grace        time.Duration        // maximum time between SIGTERM and SIGKILL
	Left         func() time.Duration // returns the remaining time of the lease
	Leave        bool                 // return when the program has ended, even if it has left other processes
	Signals      *Listener            // receives signals for the program; opened before the lock is requested
	Alert        func(text string)    // prints a message for the user
}

// Errors that Run returns in addition to the exit status: zksh terminated the program because the lease was
// about to expire, or could not terminate some of its processes in time.
var (
	ErrOverdue = errors.New("the lease was about to expire, and zksh could not renew it in time")
	ErrEscaped = errors.New("zksh could not terminate all processes of the command in time")
)

// Run runs a program, and returns its exit status, or 128+n if signal n has killed it. Run returns when
// everything that the program has started has ended, or with Spec.Leave as soon as the program itself has
// ended. If the program could not be run, the error is a *StartError. The caller must not release the lock
// before Run has returned.
//
// Run finds the program as execvp does. The program is a member of a process group of its own, which gets the
// terminal if zksh has it. Run passes on INT, TERM, QUIT, HUP, USR1 and USR2 to the group. If one of the first
// four arrives before the start, the program is not started: the status is 128+n, and the error says so. If the
// program has ended, they terminate the processes that it has left.
//
// A value on stop is a deadline. All processes receive TERM at once. At the deadline or after Grace, whichever
// is sooner, they receive KILL.
//
// The parent of the program is the keeper, whose main must begin with a call of Keeper. If zksh dies, the
// keeper terminates the program in the same way. If zksh is stopped, it does so Grace before the end of the
// lease, as last reported by Left.
//
// On Linux, Run waits for and terminates all descendants of the program that the keeper is permitted to signal.
// On other Unix systems, these are the processes of the program's group, and on all other systems only the
// program, which runs on if zksh dies.
func Run(spec Spec, stop <-chan time.Time) (status int, err error) {
	if sig := spec.Signals.earlySignal(); sig != 0 {
		const text = "%s was not started, because zksh received the signal %q first"
		return 128 + int(sig), fmt.Errorf(text, spec.Argv[0], sig)
	}
	return supervise(spec, stop)
}

// newCommand returns a command with the environment and the standard files of the program.
func (s *Spec) newCommand(path string, args []string) *exec.Cmd {
	cmd := &exec.Cmd{Path: path, Args: args, Env: append(os.Environ(), s.Env...), Stdout: s.Out, Stderr: s.Err}
	if s.In != nil { // otherwise, os/exec opens the null device
		cmd.Stdin = s.In
	}
	return cmd
}

// A StartError reports that a program could not be run.
type StartError struct {
	Name  string
	Cause error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("cannot run %s: %s", cmp.Or(e.Name, `""`), e.Cause)
}

// Unwrap returns the cause of the error.
func (e *StartError) Unwrap() error { return e.Cause }

// NotFound reports whether the program does not exist. It returns false if the program exists but cannot be
// run.
func (e *StartError) NotFound() bool {
	return errors.Is(e.Cause, exec.ErrNotFound) || errors.Is(e.Cause, fs.ErrNotExist)
}
