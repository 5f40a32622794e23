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

// child is a running program with its keeper. Its methods are for the goroutine
// of Run.
type child struct {
	spec   Spec
	keeper *exec.Cmd
	orders messageWriter

	pid                int       // of the program, and the number of its group
	cgroup             string    // its control group
	tty                *terminal // nil: we have none
	retryTerminal      <-chan time.Time
	waitingForTerminal bool // for a terminal that is not ours to give, and the person knows
	killAt             *moment
	overdueTimer       <-chan time.Time // looks after the keeper
	renewTimer         <-chan time.Time // tells the keeper of the lease
}

// passedOn are the signals that go to the program.
var forwardedSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2}

// mustEnd tells a signal that would end the program from one that only speaks to it.
func terminates(sig os.Signal) bool {
	return sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 && sig != syscall.SIGTSTP
}

// change is one thing that happened to the program itself: it stopped, or it ended.
type change struct {
	stopped syscall.Signal // 0: it ended
	status  syscall.WaitStatus
	err     error
}

// supervise has a keeper start the program and sees to it until it is gone.
func supervise(cmd *exec.Cmd, files []*os.File, spec Spec, stop <-chan time.Time) (int, error) {
	term := openTerminal()
	defer term.close()
	handOver := term.isOurs() && isControlling(files[0]) && isControlling(files[1])
	c := &child{spec: spec, tty: term}
	// Asleep, we would lose the session and the program would run on without its
	// lock, so Ctrl-Z is taken where it reaches us.
	leaveStops, err := catchSuspend(spec.Signals)
	if err != nil {
		return 0, newStartError(spec.Argv[0], err)
	}
	defer func() { c.alertError(leaveStops()) }()
	if sig := spec.Signals.earlySignal(); sig != nil {
		return notStarted(spec.Argv[0], sig)
	}
	reports, err := c.startKeeper(cmd, files)
	if err != nil {
		return 0, newStartError(spec.Argv[0], err)
	}
	defer c.dismissKeeper(reports)
	if handOver {
		c.alertError(term.giveTo(c.pid))
	}
	defer func() { c.alertError(term.takeBack()) }()
	end, err := c.waitForEnd(reports, stop)
	if err == nil && end.Status.Signaled() {
		c.alertError(term.restoreModes()) // it had no time to do that itself
	}
	if end.Left != 0 {
		c.spec.Alert(stillRunning(end.Left) + " without the lock")
	}
	return exitStatus(end.Status), err
}

// exitStatus is the status as a shell has it.
func exitStatus(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// start starts the keeper, and has it start the program.
func (c *child) startKeeper(cmd *exec.Cmd, files []*os.File) (<-chan report, error) {
	self, err := executable()
	if err != nil {
		return nil, fmt.Errorf("cannot start the zksh process that supervises the command, because the zksh executable cannot be found: %v", err) // and not that the program cannot
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
		// A group of its own, which nobody stops with ours.
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
	heard := readMessages[report](reports)
	p := &program{Path: cmd.Path, Argv: cmd.Args, Grace: c.spec.Grace, WaitGroup: c.spec.WaitGroup, Until: c.renewLease()}
	if err := c.orders.write(order{Start: p}); err != nil {
		c.dismissKeeper(heard)
		return nil, err
	}
	first, ok := report{}, true
	for waiting := true; waiting; {
		select {
		case first, ok = <-heard:
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
		c.dismissKeeper(heard)
		return nil, err
	}
	c.pid, c.cgroup = first.Pid, first.Cgroup
	return heard, nil
}

var errKeeper = textError("zksh's helper process for the command has exited")

// wake has a keeper go on that somebody has stopped: it would keep nothing. If it
// has ended, that is heard of.
func (c *child) wakeKeeper() { _ = c.keeper.Process.Signal(syscall.SIGCONT) }

// dismiss lets the keeper end, and waits for that, which somebody may have stopped it
// before.
func (c *child) dismissKeeper(reports <-chan report) {
	c.orders.file.Close()
	for ends := true; ends; {
		select {
		case _, ends = <-reports:
		case <-time.After(recheckInterval):
			c.wakeKeeper()
		}
	}
	_ = c.keeper.Wait() // its status says nothing
}

// lease is what the keeper must know of the lease, and has it told again in time.
func (c *child) renewLease() *instant {
	if c.spec.Left == nil {
		return nil
	}
	left := c.spec.Left()
	c.renewTimer = time.After(max(minRenewInterval, min(recheckInterval, (left-c.spec.Grace)/4)))
	return instantOf(momentAt(time.Now().Add(left)))
}

// renewAtLeast is how often the keeper is told of a lease that is about to end.
const minRenewInterval = 20 * time.Millisecond

// watch sees to the program until it is gone, and returns how it ended.
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

// orderedLate reports whether the end was ordered in the very moment of the end: the
// keeper kills what is left then, and reports again.
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

// bereft kills the program whose keeper has died. The system has killed it, too,
// where it can, but not what it has started.
func (c *child) handleKeeperDeath() (ending, error) {
	c.alertError(killCgroup(c.cgroup))
	if err := syscall.Kill(-c.pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		c.alertError(fmt.Errorf("cannot kill %s: %w", c.spec.Argv[0], err))
	}
	poll(sweepLimit, func() bool { return countGroup(c.pid) == 0 })
	removeCgroup(c.cgroup)
	return ending{Status: syscall.WaitStatus(syscall.SIGKILL)}, fmt.Errorf("%s was killed: %w", c.spec.Argv[0], errKeeper)
}

// order tells the keeper something. One that does not listen is looked after when
// it is time; one that has ended is heard of otherwise.
func (c *child) sendOrder(o order) { _ = c.orders.write(o) }

func (c *child) alertError(err error) {
	if err != nil {
		c.spec.Alert(err.Error())
	}
}

// pass gives a signal we got to the group.
func (c *child) forward(sig syscall.Signal) {
	if sig == syscall.SIGTSTP {
		c.spec.Alert("zksh was not suspended, because the lock would be lost in the meantime")
		return
	}
	c.sendOrder(order{Signal: sig})
}

// end orders the end of the group. Of several deadlines the first one counts.
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

func (c *child) setOverdueTimer() {
	c.overdueTimer = time.After(min(max(c.killAt.left(now()), 0)+keeperHeadStart, recheckInterval))
}

// keeperFirst is what the keeper has to do its work before we do.
const keeperHeadStart = 50 * time.Millisecond

// endOurselves does the keeper's work when it has not: somebody may have stopped
// it.
func (c *child) killOverdue() {
	if c.killAt.left(now()) > -keeperHeadStart {
		c.setOverdueTimer()
		return
	}
	c.overdueTimer = time.After(recheckInterval)
	_, _ = killTree(c.keeper.Process.Pid) // what fails, the keeper tells
	_ = killCgroup(c.cgroup)
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
}

// stopped makes a program go on that has been stopped. One that was stopped for
// want of the terminal gets it first, as soon as it is ours to give.
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
