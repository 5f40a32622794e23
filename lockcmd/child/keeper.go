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

// keeperName is the keeper's first argument, by which the program knows that it is
// to be one, and its name among the processes: who ends all called zksh with KILL
// does not mean it.
const keeperName = "lock-keeper"

// The keeper's ends of the two pipes.
const (
	ordersFile  = 3
	reportsFile = 4
)

// Keeper is the first thing that main calls. A zksh that was started by Run to keep
// a program does that, and ends with the status; for any other one it does nothing.
//
// The keeper is the program's parent and outlives us: when we die in any way, or
// stand still until the lease ends, it ends the program. On Linux it is the reaper
// of orphans, too, so that nothing the program starts gets out of its tree.
func Keeper() (status int, is bool) {
	if len(os.Args) != 1 || os.Args[0] != keeperName {
		return 0, false
	}
	for _, fd := range []int{ordersFile, reportsFile} {
		syscall.CloseOnExec(fd)
		if err := syscall.SetNonblock(fd, true); err != nil { // for the deadlines of what is written
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

// keeper is the process between zksh and the program. Its methods are for the
// goroutine of run.
type keeper struct {
	messageWriter
	orders <-chan order
	now    func() moment

	program
	pid             int // and the number of its group
	cgroup          *cgroup
	changes         <-chan change
	ended           *change // the program has ended; its group may go on
	waitingForGroup bool    // for that group
	reported        bool    // zksh knows of the end; it closes the orders, or has the rest killed

	leaseEnd *moment // the end of the lease
	killAt   *moment // when KILL comes; nil until the end is ordered
	timer    *time.Timer
	overdue  bool  // the end was ordered by the lease alone
	killErr  error // why something could not be killed
}

// run keeps a program until it is gone and zksh knows it, or is gone, too.
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

// deaf has the signals that are meant for others pass by. They are not ignored,
// which the program would inherit, and one that is ignored stays so.
func (k *keeper) dropSignals() {
	drop := make(chan os.Signal, 1)
	for _, sig := range append(forwardedSignals, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU) {
		if !signal.Ignored(sig) {
			signal.Notify(drop, sig)
		}
	}
	_ = os.WriteFile("/proc/self/comm", []byte(keeperName), 0) // elsewhere the first argument must do
}

// begin starts the program.
func (k *keeper) startProgram() {
	err := becomeReaper()
	if err == nil {
		k.cgroup = newCgroup()
		k.pid, k.changes, err = k.fork(k.cgroup)
		if err != nil && k.cgroup != nil { // perhaps for the box
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

// letGoOfFiles leaves the program's files to the program: a pipe ends for its
// reader when that does.
func (k *keeper) releaseFiles() {
	for fd := range 3 {
		_ = syscall.Close(fd)
		_, _ = syscall.Open(os.DevNull, os.O_RDWR, 0) // takes the number that has become free
	}
}

// start starts the program. Its one goroutine ends with the program, whose last
// change must be received.
func (k *keeper) fork(b *cgroup) (pid int, changes <-chan change, err error) {
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: childAttr()}
	b.attach(attr.Sys)
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
		pid, err := syscall.ForkExec(k.Path, k.Argv, attr)
		begun <- beginning{pid, err}
		for gone := err != nil; !gone; {
			c, err := waitForChange(pid)
			c.err = err
			out <- c
			gone = err != nil || c.stopped == 0
		}
	}()
	b2 := <-begun
	if b2.err != nil {
		return 0, nil, b2.err
	}
	return b2.pid, out, nil
}

// obey does what zksh asks for.
func (k *keeper) execute(o order) {
	switch {
	case o.Signal != 0:
		k.send(o.Signal)
	case o.Until != nil:
		m := o.Until.moment()
		k.leaseEnd = &m
		k.timer.Reset(0)
	case o.End != nil:
		k.reported = false // zksh waits for it once more
		k.terminate(o.End.moment())
	}
}

// changed takes what happened to the program itself.
func (k *keeper) handleChange(c change) {
	switch {
	case c.err != nil || c.stopped == 0:
		k.ended, k.changes = &c, nil
	case k.killAt != nil:
		k.send(syscall.SIGCONT) // it has been told to end
	default:
		k.report(report{Stopped: c.stopped})
	}
}

// abandoned ends the program, since zksh is gone, before the lease is over and
// somebody else can have the lock.
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

// end orders the end of the group. Of several deadlines the first one counts.
func (k *keeper) terminate(due moment) {
	from := k.now()
	if k.killAt == nil {
		k.send(syscall.SIGTERM)
		k.send(syscall.SIGCONT) // the program may be stopped, and TERM has to reach it
		limit := moment{from.monotonic.Add(k.Grace), from.wall.Add(k.Grace)}
		k.killAt = &limit
	}
	if due.left(from) < k.killAt.left(from) {
		k.killAt = &due
	}
	k.timer.Reset(0)
}

// check looks at the clocks.
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
	if k.waitingForGroup {
		wait = min(wait, groupInterval)
	}
	k.timer.Reset(wait)
}

// send sends a signal to the whole group, whose number is held by the program
// itself, that we have not reaped.
func (k *keeper) send(sig syscall.Signal) {
	if err := syscall.Kill(-k.pid, sig); err != nil && err != syscall.ESRCH {
		k.alert(fmt.Errorf("cannot send signal %q to %s: %w", sig, k.Argv[0], err))
	}
}

// killAll kills all that descends from us, and counts what was left of it.
func (k *keeper) killAll() (left int) {
	k.send(syscall.SIGKILL)
	boxErr := killCgroup(k.cgroup.path())
	left, err := killTree(os.Getpid())
	if err == nil || k.cgroup != nil && boxErr == nil { // the kernel kills those, too, that we may not
		return left
	}
	if k.killErr == nil {
		k.killErr = err
		k.alert(fmt.Errorf("cannot terminate a process of %s; that process continues without the lock: %w", k.Argv[0], err))
	}
	return left
}

const (
	// sweepLimit bounds the wait for killed processes to vanish. They do no more by
	// then, but one may wait for a disk.
	sweepLimit = 200 * time.Millisecond
	// settleLimit bounds the wait for the rest of a group that is just about to end.
	settleLimit = 100 * time.Millisecond
	// lookForGroup is how often a group is counted that is waited for.
	groupInterval = 100 * time.Millisecond
)

// finish sees to what the ended program has left, and tells of its end. What is
// left of the group without an order to end it may be a daemon that is meant to
// stay.
func (k *keeper) finish() {
	left := 0
	switch {
	case k.waitingForGroup && k.killAt != nil && k.killAt.left(k.now()) > 0 && k.groupSize() != 0:
		return // it has had TERM
	case k.killAt != nil:
		poll(sweepLimit, func() bool { return k.killAll() == 0 })
	case k.WaitGroup:
		if left = k.groupSize(); left != 0 {
			if !k.waitingForGroup {
				k.waitingForGroup = true
				k.alert(fmt.Errorf("%s; zksh holds the lock until they exit", stillRunning(left)))
			}
			k.timer.Reset(groupInterval)
			return
		}
	default:
		poll(settleLimit, func() bool { left = k.groupSize(); return left == 0 })
	}
	k.reported = true
	k.report(report{Ended: &ending{Status: k.ended.status, Overdue: k.overdue, Escaped: k.killErr != nil, Left: left}})
}

// rest counts what goes on of the group of an ended program.
func (k *keeper) groupSize() int {
	if k.cgroup.isEmpty() {
		return 0
	}
	return countGroup(k.pid)
}

// poll waits until something is so, but not for long.
func poll(limit time.Duration, is func() bool) {
	for end := time.Now().Add(limit); !is() && time.Now().Before(end); {
		time.Sleep(2 * time.Millisecond)
	}
}

// alert has zksh tell the person.
func (k *keeper) alert(err error) { k.report(report{Alert: err.Error()}) }

// tell reports. When zksh does not listen, nobody can be told.
func (k *keeper) report(r report) { _ = k.write(r) }
