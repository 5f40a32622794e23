//go:build unix && !aix && !solaris

package child

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// keeperName is the process name of a keeper. Keeper recognizes a keeper process by this name in
// os.Args[0]. The name differs from zksh, so that `killall -9 zksh` does not kill keepers.
const keeperName = "lock-keeper"

// File descriptors of the keeper's pipes: one for orders from zksh, and one for reports to zksh.
const (
	ordersFile  = 3
	reportsFile = 4
)

// Keeper must be the first call in main. In a process that Run has started as a keeper, it
// runs the program, and returns true and the exit status with which the keeper must exit. In
// any other process, it does nothing and returns false.
//
// The keeper is the parent of the program and outlives zksh. If zksh dies, or is suspended
// until the lease ends, the keeper terminates the program. On Linux, orphaned descendants
// become children of the keeper, so that no process that the program starts can leave the
// keeper's process tree.
func Keeper() (status int, isKeeper bool) {
	if len(os.Args) != 1 || os.Args[0] != keeperName {
		return 0, false
	}
	for _, fd := range []int{ordersFile, reportsFile} {
		syscall.CloseOnExec(fd)
		if err := syscall.SetNonblock(fd, true); err != nil { // required for write deadlines
			fmt.Fprintln(os.Stderr, keeperName+": only zksh can start this:", err)
			return 2, true
		}
	}
	k := &keeper{
		messageWriter: messageWriter{file: os.NewFile(reportsFile, "reports")},
		orders:        readMessages[order](os.NewFile(ordersFile, "orders")),
		now:           now,
	}
	k.run()
	return 0, true
}

// A keeper starts the program for zksh and supervises it, in a process of its own. Only the
// goroutine of run calls its methods.
type keeper struct {
	messageWriter
	orders <-chan order
	now    func() moment

	program
	pid      int // process id of the program, and id of its group
	cgroup   *cgroup
	changes  <-chan change
	ended    *change // how the program has ended; nil while it runs
	reported bool    // whether the end of the program was reported to zksh

	leaseEnd *moment // end of the lease; nil if there is no limit
	killAt   *moment // time at which the keeper sends SIGKILL; nil while the program may run
	timer    *time.Timer
	overdue  bool  // whether the keeper terminated the program without an order, because the lease was about to end
	killErr  error // first error from an attempt to kill a process; nil if there is none
}

// run starts the program and supervises it. It returns when the end of the program has been
// reported and the pipe of orders is closed. zksh closes the pipe after it has received the report.
// If zksh dies, the kernel closes the pipe. If the program cannot be started, run returns at once.
func (k *keeper) run() {
	k.dropSignals()
	first, ok := <-k.orders
	if !ok || first.Start == nil {
		return
	}
	k.program = *first.Start
	orphans := make(chan os.Signal, 1)
	signal.Notify(orphans, syscall.SIGCHLD)
	k.startProgram()
	defer k.cgroup.release()
	k.timer = time.NewTimer(0)
	for k.pid != 0 && !(k.reported && k.orders == nil) {
		select {
		case o, ok := <-k.orders:
			if ok {
				k.execute(o)
			} else {
				k.handleZkshGone()
			}
		case c := <-k.changes:
			k.handleChange(c)
		case <-orphans:
			reapOrphans(k.pid)
		case <-k.timer.C:
			k.checkClocks()
		}
		if k.ended != nil && !k.reported {
			k.finish()
		}
	}
}

// dropSignals makes the keeper discard signals that are meant for other processes. It does not
// ignore them with signal.Ignore, because the program would inherit that setting. Signals that are
// already ignored stay ignored.
func (k *keeper) dropSignals() {
	drop := make(chan os.Signal, 1)
	for _, sig := range append(forwardedSignals, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU) {
		if !signal.Ignored(sig) {
			signal.Notify(drop, sig)
		}
	}
	// Set the process name on Linux. On other systems, this fails.
	_ = os.WriteFile("/proc/self/comm", []byte(keeperName), 0)
}

// startProgram starts the program, in a control group if possible, and reports the result to
// zksh.
func (k *keeper) startProgram() {
	err := becomeReaper()
	if err == nil {
		k.cgroup = newCgroup()
		k.pid, k.changes, err = k.fork(k.cgroup)
		if err != nil && k.cgroup != nil { // the control group may be the cause; try without it
			k.cgroup.release()
			k.cgroup = nil
			k.pid, k.changes, err = k.fork(nil)
		}
	}
	if err != nil {
		f := &failure{Text: err.Error()}
		errors.As(err, &f.Number)
		k.report(report{Failed: f})
		return
	}
	k.releaseFiles()
	if k.Until != nil {
		m := k.Until.moment()
		k.leaseEnd = &m
	}
	k.report(report{Pid: k.pid, Cgroup: k.cgroup.path()})
}

// releaseFiles closes the keeper's copies of the program's standard files. Otherwise, a process
// that reads the program's output from a pipe would not see the end of the output when the
// program ends.
func (k *keeper) releaseFiles() {
	for fd := range 3 {
		_ = syscall.Close(fd)
		_, _ = syscall.Open(os.DevNull, os.O_RDWR, 0) // reuses the descriptor fd
	}
}

// fork starts the program, in the control group unless group is nil. A goroutine sends a value
// on changes whenever the program stops, and when it ends. The keeper must receive all values,
// because the goroutine ends only then.
func (k *keeper) fork(group *cgroup) (pid int, changes <-chan change, err error) {
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: childAttr()}
	group.attach(attr.Sys)
	type beginning struct {
		pid int
		err error
	}
	begun := make(chan beginning)
	out := make(chan change)
	go func() {
		// Linux sends the parent-death signal when the thread that started the child ends. Lock
		// this goroutine to its thread, so that the thread does not end before the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		pid, err := syscall.ForkExec(k.Path, k.Argv, attr)
		begun <- beginning{pid, err}
		for gone := err != nil; !gone; {
			c, err := waitForChange(pid)
			c.err = err
			out <- c
			gone = err != nil || c.stopped == 0
		}
	}()
	b := <-begun
	if b.err != nil {
		return 0, nil, b.err
	}
	return b.pid, out, nil
}

// execute carries out an order that zksh has sent.
func (k *keeper) execute(o order) {
	switch {
	case o.Signal != 0:
		k.send(o.Signal)
	case o.Until != nil:
		m := o.Until.moment()
		k.leaseEnd = &m
		k.timer.Reset(0)
	case o.End != nil:
		k.reported = false // zksh waits for a second report of the program's end
		k.terminate(o.End.moment())
	}
}

// handleChange handles the report c that the program has stopped or ended.
func (k *keeper) handleChange(c change) {
	switch {
	case c.err != nil || c.stopped == 0:
		k.ended, k.changes = &c, nil
	case k.killAt != nil:
		k.send(syscall.SIGCONT) // a stopped program must be able to handle SIGTERM
	default:
		k.report(report{Stopped: c.stopped})
	}
}

// handleZkshGone terminates the program after zksh has died. The program must end before the lease
// ends, because another client can then get the lock.
func (k *keeper) handleZkshGone() {
	k.orders = nil
	if k.reported {
		return
	}
	due := k.now()
	if k.leaseEnd != nil {
		due = *k.leaseEnd
	}
	k.terminate(due)
}

// terminate sends SIGTERM to the group. It schedules SIGKILL for the time due or after Grace,
// whichever is sooner. If terminate is called several times, the earliest of these times applies.
func (k *keeper) terminate(due moment) {
	from := k.now()
	if k.killAt == nil {
		k.send(syscall.SIGTERM)
		k.send(syscall.SIGCONT) // a stopped program must be able to handle SIGTERM
		limit := moment{from.monotonic.Add(k.Grace), from.wall.Add(k.Grace)}
		k.killAt = &limit
	}
	if due.left(from) < k.killAt.left(from) {
		k.killAt = &due
	}
	k.timer.Reset(0)
}

// checkClocks terminates the group if only Grace is left of the lease, and kills all processes if
// the time killAt has passed. It also sets the timer for the next check.
func (k *keeper) checkClocks() {
	from := k.now()
	if k.killAt == nil && k.leaseEnd != nil && k.leaseEnd.left(from) <= k.Grace {
		k.overdue = true
		k.terminate(*k.leaseEnd)
	}
	wait := recheckInterval
	switch {
	case k.killAt != nil && k.killAt.left(from) <= 0:
		k.killAll()
	case k.killAt != nil:
		wait = min(wait, k.killAt.left(from))
	case k.leaseEnd != nil:
		wait = min(wait, k.leaseEnd.left(from)-k.Grace)
	}
	k.timer.Reset(wait)
}

// send sends a signal to the program's whole process group. The group's id cannot belong to
// other processes, because the keeper has not reaped the program.
func (k *keeper) send(sig syscall.Signal) {
	if err := syscall.Kill(-k.pid, sig); err != nil && err != syscall.ESRCH {
		k.alert(fmt.Errorf("cannot send signal %q to %s: %w", sig, k.Argv[0], err))
	}
}

// killAll sends SIGKILL to all descendants of the keeper, and returns how many were still
// running.
func (k *keeper) killAll() (left int) {
	k.send(syscall.SIGKILL)
	boxErr := killCgroup(k.cgroup.path())
	left, err := killTree(os.Getpid())
	if err == nil || k.cgroup != nil && boxErr == nil { // the kernel kills the rest of the control group
		return left
	}
	if k.killErr == nil {
		k.killErr = err
		k.alert(fmt.Errorf("cannot terminate a process of %s; that process continues without the lock: %w", k.Argv[0], err))
	}
	return left
}

const (
	// sweepLimit is the maximum time to wait until killed processes have vanished. They run
	// no more code, but may be waiting for a disk.
	sweepLimit = 200 * time.Millisecond
	// settleLimit is the maximum time to wait for the remaining processes of a group to end by
	// themselves.
	settleLimit = 100 * time.Millisecond
)

// finish handles the processes that the program has left running when it ended, and then reports
// the end to zksh. Unless zksh has ordered their termination, finish does not kill processes of the
// group, because they may be daemons that are meant to stay.
func (k *keeper) finish() {
	left := 0
	if k.killAt != nil {
		poll(sweepLimit, func() bool { return k.killAll() == 0 })
	} else {
		poll(settleLimit, func() bool { left = k.groupSize(); return left == 0 })
	}
	k.reported = true
	k.report(report{Ended: &ending{Status: k.ended.status, Overdue: k.overdue, Escaped: k.killErr != nil, Left: left}})
}

// groupSize returns the number of processes that still run in the group of the ended program, or
// -1 if the number is unknown.
func (k *keeper) groupSize() int {
	if k.cgroup.isEmpty() {
		return 0
	}
	return countGroup(k.pid)
}

// poll calls done repeatedly until it returns true or the time limit has passed.
func poll(limit time.Duration, done func() bool) {
	for end := time.Now().Add(limit); !done() && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
	}
}

// alert makes zksh show a message to the user.
func (k *keeper) alert(err error) { k.report(report{Alert: err.Error()}) }

// report sends a report to zksh. It ignores errors, because the keeper has no other way to
// report them.
func (k *keeper) report(r report) { _ = k.write(r) }
