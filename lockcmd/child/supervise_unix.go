//go:build unix && !aix && !solaris

package child

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// child is a running program. Its methods are for the goroutine of Run.
type child struct {
	spec    Spec
	pid     int // and the number of its group
	changes <-chan change
	tty     *terminal // nil: we have none
	retry   <-chan time.Time
	waits   bool // for a terminal that is not ours to give, and the person knows
	due     moment
	kill    <-chan time.Time // nil until the end is ordered
}

// passedOn are the signals that go to the program.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}

// mustEnd tells a signal that would end the program from one that only speaks to it.
func mustEnd(sig os.Signal) bool {
	return sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 && sig != syscall.SIGTSTP
}

// change is one thing that happened to the program itself: it stopped, or it ended.
type change struct {
	stopped syscall.Signal     // 0: it ended
	status  syscall.WaitStatus // where the system gives it at once
	err     error
}

// supervise starts the program and sees to it until it is gone.
func supervise(cmd *exec.Cmd, files []*os.File, spec Spec, stop <-chan time.Time) (int, error) {
	term := openTerminal()
	defer term.close()
	handOver := term.ours() && isControlling(files[0]) && isControlling(files[1])
	// Asleep, we would lose the session and the program would run on without its
	// lock, so Ctrl-Z is taken where it reaches us.
	spec.Signals.add(syscall.SIGTSTP)
	if sig := spec.Signals.early(); sig != nil {
		return notStarted(spec.Argv[0], sig)
	}
	pid, changes, err := start(cmd, files)
	if err != nil {
		return 0, cannotRun(spec.Argv[0], err)
	}
	c := &child{spec: spec, pid: pid, changes: changes, tty: term}
	if handOver {
		c.complain(term.give(pid))
	}
	defer func() { c.complain(term.takeBack()) }()
	status, err := c.watch(stop)
	if err == nil && status.Signaled() {
		c.complain(term.restore()) // it had no time to do that itself
	}
	return exitStatus(status), err
}

// exitStatus is the status as a shell has it.
func exitStatus(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// start starts the program. Its one goroutine ends with the program, whose last
// change must be received.
func start(cmd *exec.Cmd, files []*os.File) (pid int, changes <-chan change, err error) {
	attr := &syscall.ProcAttr{Env: cmd.Environ(), Sys: childAttr()}
	for _, f := range files {
		attr.Files = append(attr.Files, f.Fd())
	}
	type beginning struct {
		pid int
		err error
	}
	begun := make(chan beginning)
	out := make(chan change)
	go func() {
		// Linux sends the parent-death signal when the thread that started the
		// child ends, so that thread must last as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		pid, err := syscall.ForkExec(cmd.Path, cmd.Args, attr)
		begun <- beginning{pid, err}
		for gone := err != nil; !gone; {
			c, err := await(pid)
			c.err = err
			out <- c
			gone = err != nil || c.stopped == 0
		}
	}()
	b := <-begun
	return b.pid, out, b.err
}

// watch sees to the program until it is gone, and returns how it ended.
func (c *child) watch(stop <-chan time.Time) (syscall.WaitStatus, error) {
	for {
		select {
		case ch := <-c.changes:
			if ch.err != nil {
				return 0, fmt.Errorf("waiting for %s: %w", c.spec.Argv[0], ch.err)
			}
			if ch.stopped != 0 {
				c.stopped(ch.stopped)
				continue
			}
			c.sweep(stop)
			return reap(c.pid, ch)
		case sig := <-c.spec.Signals.signals:
			c.pass(sig.(syscall.Signal))
		case due, ok := <-stop:
			if !ok {
				stop = nil
				continue
			}
			c.end(at(due))
		case <-c.kill:
			if c.due.left(now()) > 0 {
				c.setTimer()
				continue
			}
			c.kill = never
			c.send(syscall.SIGKILL)
			c.complain(ignoreGone(syscall.Kill(c.pid, syscall.SIGKILL))) // it may have left its group
		case <-c.retry:
			c.stopped(syscall.SIGTTIN)
		}
	}
}

// send sends a signal to the whole group.
func (c *child) send(sig syscall.Signal) {
	if err := ignoreGone(syscall.Kill(-c.pid, sig)); err != nil {
		c.complain(fmt.Errorf("%s could not be sent to %s: %w", sig, c.spec.Argv[0], err))
	}
}

func ignoreGone(err error) error {
	if err == syscall.ESRCH {
		return nil
	}
	return err
}

func (c *child) complain(err error) {
	if err != nil {
		c.spec.Alert(err.Error())
	}
}

// pass gives a signal we got to the group.
func (c *child) pass(sig syscall.Signal) {
	if sig == syscall.SIGTSTP {
		c.spec.Alert("not stopped: a lock would be lost in the sleep")
		return
	}
	c.send(sig)
}

// end orders the end of the group. Of several deadlines the first one counts.
func (c *child) end(due moment) {
	if c.kill == nil {
		c.due = at(time.Now().Add(c.spec.Grace))
		c.send(syscall.SIGTERM)
		c.send(syscall.SIGCONT) // the program may be stopped, and TERM has to reach it
	}
	if from := now(); due.left(from) < c.due.left(from) {
		c.due = due
	}
	c.setTimer()
}

func (c *child) setTimer() { c.kill = time.After(min(c.due.left(now()), lookAgain)) }

// never is the timer of what is done.
var never = make(<-chan time.Time)

// stopped makes a program go on that has been stopped. One that was stopped for
// want of the terminal gets it first, as soon as it is ours to give.
func (c *child) stopped(by syscall.Signal) {
	c.retry = nil
	switch {
	case by != syscall.SIGTTIN && by != syscall.SIGTTOU:
		c.spec.Alert(c.spec.Argv[0] + " was stopped and goes on: a lock would be lost in the sleep")
	case c.tty.ours() || c.tty.has(c.pid):
		c.complain(c.tty.give(c.pid))
		c.waits = false
	default:
		c.retry = time.After(time.Second)
		if !c.waits {
			c.waits = true
			c.spec.Alert(c.spec.Argv[0] + " waits for the terminal, which another job has; the lock is kept meanwhile")
		}
		return
	}
	c.send(syscall.SIGCONT)
}

// sweepLimit bounds the wait for killed processes to vanish. They do no more by
// then, but where nobody reaps orphans they stay visible.
const sweepLimit = 200 * time.Millisecond

// sweep kills what the ended program has left of its group, if an end was
// ordered, also at the last moment.
func (c *child) sweep(stop <-chan time.Time) {
	select {
	case due, ok := <-stop:
		if ok {
			c.end(at(due))
		}
	default:
	}
	if c.kill == nil {
		return
	}
	c.send(syscall.SIGKILL)
	limit := time.After(sweepLimit)
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !groupIsGone(c.pid) {
		select {
		case <-look.C:
		case <-limit:
			return
		}
	}
}
