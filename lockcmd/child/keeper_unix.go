//go:build unix && !aix && !solaris

package child

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// keeperName is the process name of a keeper: os.Args[0]. It differs from zksh, so that `killall -9 zksh` does
// not kill keepers. The file descriptor of the keeper's link follows, then the program and its arguments. They
// are arguments of the keeper, so that no byte of them changes.
const keeperName = "lock-keeper"

var isKeeper = len(os.Args) > 2 && os.Args[0] == keeperName

func init() {
	if isKeeper {
		// The kernel kills the program when the thread that has started it ends. The main thread lives as long
		// as the keeper, and is the parent of the orphans, too.
		runtime.LockOSThread()
	}
}

// Keeper must be the first call in main. In a process that Run has started as a keeper, it runs the program,
// and returns true and the exit status with which the keeper must exit. In any other process, it does nothing
// and returns false.
func Keeper() (status int, is bool) {
	if !isKeeper {
		return 0, false
	}
	fd, err := strconv.Atoi(os.Args[1])
	if err != nil || fd < firstKeeperFile {
		fmt.Fprintln(os.Stderr, keeperName+": only zksh can start this")
		return 2, true
	}
	syscall.CloseOnExec(fd)
	newKeeper(os.Getpid(), link{os.NewFile(uintptr(fd), "zksh")}).run(os.Args[2:])
	return 0, true
}

// A keeper starts the program for zksh and supervises it, in a process of its own. Only the goroutine of run
// calls its methods.
//
// The process is born as the leader of a process group, but moves to another group, and starts the program as a
// member of the first one. So the program is not the leader of a group, and may call setsid. The group's id
// stays reserved, and a signal to the group does not reach the keeper.
//
// On Linux, everything that the program starts is a descendant of the keeper, and becomes its child when its
// parent ends. So wait4 knows without any bookkeeping whether something is left.
type keeper struct {
	tree
	zksh   link
	orders <-chan record // nil after zksh has died
	now    func() int64
	timer  *time.Timer // time for the next call of checkClock

	lease, grace int64
	killAt       int64 // time for SIGKILL; never while the program may run
	doubtUntil   int64 // time at which the keeper believes that the lease is about to end; 0 if it is not
	overdue      bool  // whether the keeper terminated the program without an order

	program int                // process id of the program
	ended   bool               // whether the program has ended
	status  syscall.WaitStatus // how the program has ended
	told    bool               // whether zksh knows that the program has ended
	termed  map[int]bool       // the program and the children outside its group that have received SIGTERM
}

// never is a time that does not come.
const never = math.MaxInt64

func newKeeper(group int, zksh link) *keeper {
	return &keeper{
		tree: tree{group: group}, zksh: zksh, now: now, timer: time.NewTimer(0), killAt: never,
		termed: map[int]bool{},
	}
}

// run starts the program, and supervises it until nothing is left that could be killed.
func (k *keeper) run(argv []string) {
	k.orders = k.zksh.receive() // ends with zksh, or with this process
	dropSignals()
	setProcessName(keeperName)
	adoptOrphans(true)
	k.zksh.send(record{Kind: reportReady})
	if first, ok := <-k.orders; ok {
		k.zksh.send(k.supervise(argv, first))
	}
	if k.orders != nil {
		for range k.orders { // zksh ends the connection when it needs the keeper's children no more
		}
	}
}

// supervise starts the program as ordered, and returns the last report to zksh.
func (k *keeper) supervise(argv []string, start record) record {
	k.lease, k.grace = start.Time, start.Grace
	if k.lease <= k.now() { // zksh was stopped before it sent the order
		return record{Kind: reportDone, Number: int32(syscall.SIGTERM), Overdue: true}
	}
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, syscall.SIGCHLD)
	if keepsEmptyGroups {
		startNothing() // a member of the program's group, which is reaped later
		stepAside()
	}
	pid, err := spawn(argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: programAttr(k.group)})
	if err != nil {
		number, _ := errors.AsType[syscall.Errno](err)
		return record{Kind: reportFailed, Number: int32(number)}
	}
	k.program = pid
	k.zksh.send(record{Kind: reportStarted})
	if !keepsEmptyGroups {
		stepAside()
	}
	dropFiles()
	for {
		select {
		case r, ok := <-k.orders:
			if ok {
				k.execute(r)
			} else {
				k.handleZkshGone()
			}
		case <-deaths:
		case <-k.timer.C:
		}
		if _, empty := k.reap(); empty {
			return k.done(false)
		}
		if k.checkClock(); k.killAt <= k.now() {
			k.zksh.send(record{Kind: reportKilling})
			return k.done(!k.killAll(k.reap))
		}
	}
}

// done returns the report that nothing is left, or only what has escaped.
func (k *keeper) done(escaped bool) record {
	if !k.ended {
		k.status = syscall.WaitStatus(syscall.SIGKILL)
	}
	return record{Kind: reportDone, Number: int32(k.status), Overdue: k.overdue, Escaped: escaped}
}

// dropSignals makes the keeper discard signals that are meant for the program. Signals that are ignored stay
// ignored, in the program, too. Go's runtime does not keep SIGQUIT ignored. But a shell that runs a job in the
// background makes it ignore both SIGINT and SIGQUIT.
func dropSignals() {
	drop := make(chan os.Signal, 1)
	for _, sig := range append(forwardedSignals, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU) {
		if !isIgnored(sig.(syscall.Signal)) {
			signal.Notify(drop, sig)
		}
	}
	if isIgnored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
	}
}

// stepAside moves the keeper to a process group of its own: a group needs a process with its id only when it is
// made. If that fails, signals to the program's group also reach the keeper, which drops most of them.
func stepAside() {
	leader := startNothing() // reap reaps it
	_ = syscall.Setpgid(leader, leader)
	_ = syscall.Setpgid(0, leader)
}

// dropFiles replaces the keeper's copies of the program's standard files. Otherwise, a process that reads the
// program's output from a pipe would not see the end of the output when the program ends.
func dropFiles() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return // without the null device, the keeper keeps the files until its end
	}
	defer null.Close()
	for fd := range 3 {
		_ = duplicateTo(int(null.Fd()), fd) // cannot fail: both descriptors are valid
	}
}

// execute carries out an order that zksh has sent.
func (k *keeper) execute(order record) {
	switch order.Kind {
	case orderSignal:
		sig := syscall.Signal(order.Number)
		if k.ended { // what is left may be in other groups
			k.signalRest(sig, nil)
		}
		k.send(sig)
	case orderLease:
		k.lease, k.doubtUntil = order.Time, 0
	case orderTerminate:
		k.terminate(order.Time)
	}
}

// handleZkshGone terminates everything after zksh has died. It must end before the lease does, because another
// client can then get the lock. Without a lease, nothing can be known about the lock.
func (k *keeper) handleZkshGone() {
	k.orders = nil
	due := k.lease
	if due == never {
		due = k.now()
	}
	k.terminate(due)
}

// send sends a signal to the program's group, and to the program if it has left the group. After SIGTERM and
// SIGHUP, it sends SIGCONT: a stopped program must be able to handle them. It reports an error to zksh.
func (k *keeper) send(sig syscall.Signal) {
	err := k.signal(sig)
	if !k.ended && k.isOutside(k.program) {
		err = signalOutside(k.program, sig)
	}
	if number, failed := errors.AsType[syscall.Errno](err); failed {
		k.zksh.send(record{Kind: reportRefused, Number: int32(number)})
	}
	if sig == syscall.SIGTERM || sig == syscall.SIGHUP {
		k.send(syscall.SIGCONT)
	}
}

// terminate sends SIGTERM to everything. SIGKILL follows at the time due or after the grace time, whichever is
// sooner. If terminate is called several times, the earliest of these times applies. It always leaves some time
// of the lease for killing.
func (k *keeper) terminate(due int64) {
	if k.killAt == never {
		k.killAt = k.now() + k.grace
		k.termed[k.program] = true
		k.send(syscall.SIGTERM)
	}
	k.killAt = min(k.killAt, due, k.lease-min(k.grace/2, int64(killReserve)))
}

const (
	// killReserve is the time before the end of a lease at which the keeper begins to kill. Hundreds of busy
	// processes in a deep tree need that long on a busy machine.
	killReserve = 250 * time.Millisecond
	// recheckInterval is the maximum time between two looks at the clock. Timers do not notice that the machine
	// was asleep.
	recheckInterval = time.Second
	pollInterval    = 100 * time.Millisecond // time between two looks for processes that no signal reports
	doubtTime       = 50 * time.Millisecond  // time to wait for a newer lease before acting on an old one
)

// reap reaps all children that have ended. empty reports that nothing of the program is left.
func (k *keeper) reap() (progress, empty bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.ECHILD:
			return progress, adoptsOrphans || k.groupIsEmpty()
		case pid <= 0:
			return progress, false
		case pid != k.program:
			delete(k.termed, pid)
		case !status.Stopped():
			k.ended, k.status = true, status
		case k.killAt != never:
			k.send(syscall.SIGCONT) // a stopped program must be able to handle SIGTERM
		default:
			k.zksh.send(record{Kind: reportStopped, Number: int32(status.StopSignal())})
		}
		progress = true
	}
}

// checkClock terminates the program if only the grace time is left of the lease, reports that the program has
// left other processes, and sets the timer for the next check.
//
// After a stop, or a long wait for the processor, a newer lease may have arrived that the keeper has not read
// yet. So checkClock waits for a moment before it acts on the lease.
func (k *keeper) checkClock() {
	t := k.now()
	wait := min(time.Duration(k.lease-k.grace-t), recheckInterval)
	if k.killAt == never && wait <= 0 {
		if k.doubtUntil == 0 {
			k.doubtUntil = t + min(int64(doubtTime), k.grace/8)
		}
		if t < k.doubtUntil {
			k.timer.Reset(time.Duration(k.doubtUntil - t))
			return
		}
		k.overdue = true
		k.terminate(k.lease)
	}
	if k.ended && !k.told {
		k.told = true
		k.zksh.send(record{Kind: reportEnded, Number: int32(k.status)})
	}
	switch {
	case k.killAt != never:
		k.signalRest(syscall.SIGTERM, k.termed)
		wait = min(time.Duration(k.killAt-t), pollInterval)
	case k.ended && !adoptsOrphans: // no signal reports that the group is empty
		wait = min(wait, pollInterval)
	}
	k.timer.Reset(max(wait, 0))
}
