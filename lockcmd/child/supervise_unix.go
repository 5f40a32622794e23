//go:build unix && !aix && !solaris

package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// A child is a running program and its keeper, as seen by zksh. Only the goroutine of Run calls
// its methods.
type child struct {
	spec   Spec
	keeper *exec.Cmd
	orders messageWriter

	pid                int              // process id of the program, and id of its group
	cgroup             string           // the program's control group directory; empty if there is none
	tty                *terminal        // controlling terminal of zksh; nil if there is none
	retryTerminal      <-chan time.Time // fires when zksh must try again to give the program the terminal
	waitingForTerminal bool             // whether the user knows that another job has the terminal
	killAt             *moment          // time at which the keeper sends SIGKILL; nil while the program may run
	overdueTimer       <-chan time.Time // fires when the keeper should have killed the program
	renewTimer         <-chan time.Time // fires when zksh must send the keeper a new end of the lease
}

// forwardedSignals are the signals that zksh passes on to the program.
var forwardedSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}

// terminates reports whether a signal normally terminates a program. After such a signal,
// zksh does not start a program.
func terminates(sig os.Signal) bool {
	return sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 && sig != syscall.SIGTSTP
}

// A change reports that the program itself has stopped or ended. It does not report changes of
// the program's descendants.
type change struct {
	stopped syscall.Signal // signal that stopped the program; 0 if the program has ended
	status  syscall.WaitStatus
	err     error
}

// supervise starts the program through a keeper, and waits until the program has ended.
func supervise(cmd *exec.Cmd, files []*os.File, spec Spec, stop <-chan time.Time) (int, error) {
	term := openTerminal()
	defer term.close()
	giveTerminal := term.isOurs() && isControlling(files[0]) && isControlling(files[1])
	c := &child{spec: spec, tty: term}
	// Prevent Ctrl-Z from suspending zksh. Otherwise, zksh would lose the session, and the program
	// would continue without its lock.
	restoreSuspend, err := catchSuspend(spec.Signals)
	if err != nil {
		return 0, newStartError(spec.Argv[0], err)
	}
	defer func() { c.alertError(restoreSuspend()) }()
	if sig := spec.Signals.earlySignal(); sig != nil {
		return notStarted(spec.Argv[0], sig)
	}
	reports, err := c.startKeeper(cmd, files)
	if err != nil {
		return 0, newStartError(spec.Argv[0], err)
	}
	defer c.dismissKeeper(reports)
	if giveTerminal {
		c.alertError(term.giveTo(c.pid))
	}
	defer func() { c.alertError(term.takeBack()) }()
	end, err := c.waitForEnd(reports, stop)
	if err == nil && end.Status.Signaled() {
		c.alertError(term.restoreModes()) // a killed program cannot restore the modes itself
	}
	if end.Left != 0 {
		c.spec.Alert(stillRunning(end.Left))
	}
	return exitStatus(end.Status), err
}

// stillRunning returns the message that n processes of the command have been left running. If n is
// -1, the number is unknown.
func stillRunning(n int) string {
	switch n {
	case -1:
		return "processes of the command's process group are still running without the lock"
	case 1:
		return "1 process of the command's process group is still running without the lock"
	}
	return fmt.Sprintf("%d processes of the command's process group are still running without the lock", n)
}

// exitStatus converts a wait status to the exit status that a shell reports.
func exitStatus(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// startKeeper starts the keeper, and makes it start the program.
func (c *child) startKeeper(cmd *exec.Cmd, files []*os.File) (<-chan report, error) {
	self, err := executable()
	if err != nil {
		// Use %v instead of %w, because StartError.NotFound must not return true if the zksh
		// executable is missing. It is about the program.
		return nil, fmt.Errorf("cannot start the zksh process that supervises the command, because the zksh executable cannot be found: %v", err)
	}
	ordersEnd, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	reports, reportsEnd, err := os.Pipe()
	if err != nil {
		orders.Close()
		ordersEnd.Close()
		return nil, err
	}
	c.orders.file = orders
	c.keeper = &exec.Cmd{
		Path: self, Args: []string{keeperName}, Env: cmd.Env,
		Stdin: files[0], Stdout: files[1], Stderr: files[2], ExtraFiles: []*os.File{ordersEnd, reportsEnd},
		// The keeper gets its own process group, so that Ctrl-Z does not stop it together with
		// zksh.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	err = c.keeper.Start()
	ordersEnd.Close()
	reportsEnd.Close()
	if err != nil {
		orders.Close()
		reports.Close()
		return nil, err
	}
	received := readMessages[report](reports)
	p := &program{Path: cmd.Path, Argv: cmd.Args, Grace: c.spec.Grace, Until: c.renewLease()}
	if err := c.orders.write(order{Start: p}); err != nil {
		c.dismissKeeper(received)
		return nil, err
	}
	first, ok := report{}, true
	for waiting := true; waiting; {
		select {
		case first, ok = <-received:
			waiting = false
		case <-time.After(keeperHeadStart):
			c.wakeKeeper()
		}
	}
	switch {
	case !ok:
		err = fmt.Errorf("%w; zksh does not know whether the command has started, so check whether it is running", errKeeper)
	case first.Failed != nil:
		err = first.Failed.err()
	}
	if err != nil {
		c.dismissKeeper(received)
		return nil, err
	}
	c.pid, c.cgroup = first.Pid, first.Cgroup
	return received, nil
}

var errKeeper = textError("zksh's helper process for the command has exited")

// wakeKeeper resumes the keeper if it was stopped, because a stopped keeper does not watch the
// lease. It ignores errors. If the keeper has ended, zksh notices that when the channel of reports
// is closed.
func (c *child) wakeKeeper() { _ = c.keeper.Process.Signal(syscall.SIGCONT) }

// dismissKeeper closes the pipe of orders, which makes the keeper exit, and waits until the
// keeper has exited. If the keeper was stopped, dismissKeeper resumes it.
func (c *child) dismissKeeper(reports <-chan report) {
	c.orders.file.Close()
	for ends := true; ends; {
		select {
		case _, ends = <-reports:
		case <-time.After(recheckInterval):
			c.wakeKeeper()
		}
	}
	_ = c.keeper.Wait() // the keeper's exit status is not used
}

// renewLease returns the current end of the lease, which the caller must send to the keeper. It
// returns nil if there is no limit. It also sets the timer for the next renewal.
func (c *child) renewLease() *instant {
	if c.spec.Left == nil {
		return nil
	}
	left := c.spec.Left()
	c.renewTimer = time.After(max(minRenewInterval, min(recheckInterval, (left-c.spec.Grace)/4)))
	return instantOf(momentAt(time.Now().Add(left)))
}

// minRenewInterval is the minimum time between two renewals. It applies when the lease is about to
// end.
const minRenewInterval = 20 * time.Millisecond

// waitForEnd handles reports, signals and deadlines until the program has ended, and
// returns how it ended.
func (c *child) waitForEnd(reports <-chan report, stop <-chan time.Time) (ending, error) {
	for {
		select {
		case r, ok := <-reports:
			switch {
			case !ok:
				return c.handleKeeperDeath()
			case r.Alert != "":
				c.spec.Alert(r.Alert)
			case r.Stopped != 0:
				c.continueProgram(r.Stopped)
			case r.Ended != nil && !c.stopOrdered(stop):
				return *r.Ended, r.Ended.err()
			}
		case sig := <-c.spec.Signals.signals:
			c.forward(sig.(syscall.Signal))
		case due, ok := <-stop:
			if !ok {
				stop = nil
				continue
			}
			c.terminate(momentAt(due))
		case <-c.overdueTimer:
			c.killOverdue()
		case <-c.retryTerminal:
			c.continueProgram(syscall.SIGTTIN)
		case <-c.renewTimer:
			c.wakeKeeper()
			c.sendOrder(order{Until: c.renewLease()})
		}
	}
}

func (e *ending) err() error {
	var errs []error
	if e.Overdue {
		errs = append(errs, ErrOverdue)
	}
	if e.Escaped {
		errs = append(errs, ErrEscaped)
	}
	return errors.Join(errs...)
}

// stopOrdered reports whether a value on stop arrived together with the report of the program's
// end. If so, it makes the keeper kill the remaining processes and then report the end again.
func (c *child) stopOrdered(stop <-chan time.Time) bool {
	select {
	case due, ok := <-stop:
		if ok {
			c.terminate(momentAt(due))
		}
		return ok
	default:
		return false
	}
}

// handleKeeperDeath kills the processes of the program after the keeper has died. On Linux, the
// kernel has already killed the program itself, but not the processes that the program has
// started.
func (c *child) handleKeeperDeath() (ending, error) {
	c.alertError(killCgroup(c.cgroup))
	if err := syscall.Kill(-c.pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		c.alertError(fmt.Errorf("cannot kill %s: %w", c.spec.Argv[0], err))
	}
	poll(sweepLimit, func() bool { return countGroup(c.pid) == 0 })
	removeCgroup(c.cgroup)
	return ending{Status: syscall.WaitStatus(syscall.SIGKILL)}, fmt.Errorf("%s was killed: %w", c.spec.Argv[0], errKeeper)
}

// sendOrder sends an order to the keeper. It ignores errors. If the keeper does not kill the
// program as ordered, killOverdue kills it. If the keeper has ended, waitForEnd notices that.
func (c *child) sendOrder(o order) { _ = c.orders.write(o) }

// alertError shows err to the user unless it is nil.
func (c *child) alertError(err error) {
	if err != nil {
		c.spec.Alert(err.Error())
	}
}

// forward passes a signal on to the program's group. It does not pass on SIGTSTP.
func (c *child) forward(sig syscall.Signal) {
	if sig == syscall.SIGTSTP {
		c.spec.Alert("zksh was not suspended, because the lock would be lost in the meantime")
		return
	}
	c.sendOrder(order{Signal: sig})
}

// terminate makes the keeper send SIGTERM now, and SIGKILL at the time due or after Grace,
// whichever is sooner. If terminate is called several times, the earliest of these times applies.
func (c *child) terminate(due moment) {
	c.wakeKeeper()
	c.sendOrder(order{End: instantOf(due)})
	from := now()
	if limit := momentAt(time.Now().Add(c.spec.Grace)); limit.left(from) < due.left(from) {
		due = limit
	}
	if c.killAt == nil || due.left(from) < c.killAt.left(from) {
		c.killAt = &due
	}
	c.setOverdueTimer()
}

// setOverdueTimer sets the timer for the next check whether the keeper has killed the program.
func (c *child) setOverdueTimer() {
	c.overdueTimer = time.After(min(max(c.killAt.left(now()), 0)+keeperHeadStart, recheckInterval))
}

// keeperHeadStart is how long zksh waits for the keeper to kill the program before zksh does it
// itself.
const keeperHeadStart = 50 * time.Millisecond

// killOverdue kills the program if the keeper has not killed it in time, for example because the
// keeper was stopped.
func (c *child) killOverdue() {
	if c.killAt.left(now()) > -keeperHeadStart {
		c.setOverdueTimer()
		return
	}
	c.overdueTimer = time.After(recheckInterval)
	// Ignore errors, because the keeper reports processes that cannot be killed.
	_, _ = killTree(c.keeper.Process.Pid)
	_ = killCgroup(c.cgroup)
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
}

// continueProgram resumes a program that was stopped by sig. If the program needs the terminal,
// continueProgram gives it the terminal first. While another job has the terminal,
// continueProgram only sets a timer to try again.
func (c *child) continueProgram(sig syscall.Signal) {
	c.retryTerminal = nil
	switch {
	case sig != syscall.SIGTTIN && sig != syscall.SIGTTOU:
		c.spec.Alert(c.spec.Argv[0] + " was stopped; zksh continues it, because the lock would be lost in the meantime")
	case c.tty.isOurs() || c.tty.hasGroup(c.pid):
		c.alertError(c.tty.giveTo(c.pid))
		c.waitingForTerminal = false
	default:
		c.retryTerminal = time.After(time.Second)
		if !c.waitingForTerminal {
			c.waitingForTerminal = true
			c.spec.Alert(c.spec.Argv[0] + " is waiting for the terminal, which another job is using; zksh still holds the lock")
		}
		return
	}
	c.sendOrder(order{Signal: syscall.SIGCONT})
}
