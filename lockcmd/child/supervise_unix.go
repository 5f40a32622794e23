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

// child is a running program with its keeper. Only the goroutine of Run calls its methods.
type child struct {
	spec   Spec
	keeper *exec.Cmd
	orders messageWriter

	pid                int              // process id of the program, and id of its group
	cgroup             string           // directory of its control group; may be empty
	tty                *terminal        // our controlling terminal; nil without one
	retryTerminal      <-chan time.Time // time to try again to give the program the terminal
	waitingForTerminal bool             // another job has the terminal; the user was alerted
	killAt             *moment          // time at which the keeper kills the program; nil without an order
	overdueTimer       <-chan time.Time // time to check that the keeper has killed it
	renewTimer         <-chan time.Time // time to send the keeper a new end of the lease
}

// forwardedSignals are the signals that are passed on to the program.
var forwardedSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}

// terminates reports whether a signal normally terminates a program. No program is started
// after such a signal.
func terminates(sig os.Signal) bool {
	return sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 && sig != syscall.SIGTSTP
}

// A change is a stop or the end of the program itself.
type change struct {
	stopped syscall.Signal // the signal that stopped it; 0 if it has ended
	status  syscall.WaitStatus
	err     error
}

// supervise makes a keeper start the program, and waits until it has ended.
func supervise(cmd *exec.Cmd, files []*os.File, spec Spec, stop <-chan time.Time) (int, error) {
	term := openTerminal()
	defer term.close()
	giveTerminal := term.isOurs() && isControlling(files[0]) && isControlling(files[1])
	c := &child{spec: spec, tty: term}
	// If zksh were suspended, it would lose the session, and the program would continue
	// without its lock. So zksh does not let Ctrl-Z suspend it.
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
		c.alertError(term.restoreModes()) // a killed program had no time to do that itself
	}
	if end.Left != 0 {
		c.spec.Alert(stillRunning(end.Left) + " without the lock")
	}
	return exitStatus(end.Status), err
}

// exitStatus returns the exit status as a shell reports it.
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
		// %v, not %w: a missing zksh must not count as NotFound, which is about the program.
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
		// A process group of its own, so that it is not stopped together with ours.
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
	p := &program{Path: cmd.Path, Argv: cmd.Args, Grace: c.spec.Grace, WaitGroup: c.spec.WaitGroup, Until: c.renewLease()}
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

// wakeKeeper continues the keeper in case it was stopped: a stopped keeper does not watch
// the lease. If the keeper has ended, the channel of its reports shows that.
func (c *child) wakeKeeper() { _ = c.keeper.Process.Signal(syscall.SIGCONT) }

// dismissKeeper closes the orders, which makes the keeper end, and waits until it has
// ended. It continues a keeper that was stopped.
func (c *child) dismissKeeper(reports <-chan report) {
	c.orders.file.Close()
	for ends := true; ends; {
		select {
		case _, ends = <-reports:
		case <-time.After(recheckInterval):
			c.wakeKeeper()
		}
	}
	_ = c.keeper.Wait() // its status is not used
}

// renewLease returns the current end of the lease for the keeper, and sets the timer for
// the next time.
func (c *child) renewLease() *instant {
	if c.spec.Left == nil {
		return nil
	}
	left := c.spec.Left()
	c.renewTimer = time.After(max(minRenewInterval, min(recheckInterval, (left-c.spec.Grace)/4)))
	return instantOf(momentAt(time.Now().Add(left)))
}

// minRenewInterval is the shortest time between two renewals, for a lease that is about to
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

// stopOrdered reports whether a value on stop came at the same time as the report of the
// end. The keeper then kills the processes that are left, and reports the end again.
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

// handleKeeperDeath kills the program after its keeper has died. The kernel has killed the
// program already, where it can do that, but not the processes that the program has
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

// sendOrder sends an order to the keeper. It ignores errors: killOverdue acts if the keeper
// does not, and waitForEnd notices if the keeper has ended.
func (c *child) sendOrder(o order) { _ = c.orders.write(o) }

// alertError shows an error to the user, if there is one.
func (c *child) alertError(err error) {
	if err != nil {
		c.spec.Alert(err.Error())
	}
}

// forward passes on a signal to the program's group. It does not forward SIGTSTP.
func (c *child) forward(sig syscall.Signal) {
	if sig == syscall.SIGTSTP {
		c.spec.Alert("zksh was not suspended, because the lock would be lost in the meantime")
		return
	}
	c.sendOrder(order{Signal: sig})
}

// terminate makes the keeper send TERM now, and KILL at due or after Grace, whichever is
// sooner. Of several calls, the earliest time counts.
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

// setOverdueTimer sets the timer for the next check that the keeper has killed the program.
func (c *child) setOverdueTimer() {
	c.overdueTimer = time.After(min(max(c.killAt.left(now()), 0)+keeperHeadStart, recheckInterval))
}

// keeperHeadStart is the time that the keeper gets for its work before zksh does this work
// itself.
const keeperHeadStart = 50 * time.Millisecond

// killOverdue kills the program if the keeper should have done so and has not, for example
// because it was stopped.
func (c *child) killOverdue() {
	if c.killAt.left(now()) > -keeperHeadStart {
		c.setOverdueTimer()
		return
	}
	c.overdueTimer = time.After(recheckInterval)
	_, _ = killTree(c.keeper.Process.Pid) // the keeper reports processes that cannot be killed
	_ = killCgroup(c.cgroup)
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
}

// continueProgram continues a program that was stopped by the signal by. If it was stopped
// because it needs the terminal, continueProgram first gives it the terminal, or waits
// until the terminal is ours.
func (c *child) continueProgram(by syscall.Signal) {
	c.retryTerminal = nil
	switch {
	case by != syscall.SIGTTIN && by != syscall.SIGTTOU:
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
