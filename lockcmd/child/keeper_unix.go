//go:build unix && !aix && !solaris

package child

import (
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

// Keeper must be the first call in main. In a process that Run has started as a keeper, it runs the program, and
// returns true; then main must return. In any other process, it does nothing and returns false.
func Keeper() bool {
	if !isKeeper {
		return false
	}
	fd, err := strconv.Atoi(os.Args[1])
	if err != nil { // Run has not started this process
		return false
	}
	syscall.CloseOnExec(fd)
	newKeeper(os.Getpid(), link{os.NewFile(uintptr(fd), "zksh")}).run(os.Args[2:])
	return true
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

	program int          // process id of the program
	ended   bool         // whether the program has ended
	termed  map[int]bool // the program and the children outside its group that have received SIGTERM
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
	// The keeper discards the signals that are meant for the program. A shell that runs a job in the background
	// makes it ignore SIGINT and SIGQUIT. Go's runtime keeps only SIGINT ignored.
	Listen()
	if signal.Ignored(syscall.SIGINT) {
		signal.Ignore(syscall.SIGQUIT)
	}
	becomeKeeper()
	stepAside()
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
	k.lease, k.grace = start.Time, start.Number
	if k.lease <= k.now() { // zksh was stopped before it sent the order
		k.zksh.send(record{Kind: reportOverdue})
		return record{Kind: reportDone}
	}
	deaths := make(chan os.Signal, 1)
	signal.Notify(deaths, syscall.SIGCHLD)
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}}
	attr.Sys = &syscall.SysProcAttr{Setpgid: true, Pgid: k.group}
	dieWithKeeper(attr.Sys)
	pid, err := spawn(argv, attr)
	if err != nil {
		return record{Kind: reportFailed, Number: int64(err.(syscall.Errno))}
	}
	k.program = pid
	k.zksh.send(record{Kind: reportStarted})
	for {
		select {
		case r, ok := <-k.orders:
			if ok {
				k.execute(r)
			} else { // zksh has died, so another client can get the lock when the lease ends
				k.orders = nil
				k.terminate(k.lease)
			}
		case <-deaths:
		case <-k.timer.C:
		}
		if _, empty := k.reap(); empty {
			return record{Kind: reportDone}
		}
		if k.checkClock(); k.killAt <= k.now() {
			k.zksh.send(record{Kind: reportKilling})
			if k.killAll(k.reap) {
				return record{Kind: reportDone}
			}
			return record{Kind: reportEscaped}
		}
	}
}

// stepAside moves the keeper from the program's group to a group of its own. A group needs its leader only when
// it is made, and exists as long as a member has not been reaped. So a process that has ended keeps each group,
// until reap reaps it. If stepAside fails, signals to the program's group also reach the keeper, which drops
// most of them.
func stepAside() {
	startNothing(false)
	_ = syscall.Setpgid(0, startNothing(true))
}

// execute carries out an order that zksh has sent.
func (k *keeper) execute(order record) {
	switch order.Kind {
	case orderSignal:
		k.send(syscall.Signal(order.Number))
	case orderLease:
		k.lease = order.Time
	case orderTerminate:
		k.terminate(order.Time)
	}
}

// send sends a signal to the program's group, and to the program if it has left the group. After SIGTERM and
// SIGHUP, it sends SIGCONT: a stopped program must be able to handle them. It reports an error to zksh.
func (k *keeper) send(sig syscall.Signal) {
	err := k.signal(sig)
	if target := k.outside(k.program); target != 0 && !k.ended {
		err = syscall.Kill(target, sig)
	}
	if err != nil {
		k.zksh.send(record{Kind: reportRefused, Number: int64(err.(syscall.Errno))})
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
		case err == syscall.ECHILD:
			return progress, k.groupIsEmpty()
		case pid <= 0:
			return progress, false
		case pid != k.program:
			delete(k.termed, pid)
		case !status.Stopped():
			k.ended = true
			k.zksh.send(record{Kind: reportEnded, Number: int64(status)})
		case k.killAt != never:
			k.send(syscall.SIGCONT) // a stopped program must be able to handle SIGTERM
		default:
			k.zksh.send(record{Kind: reportStopped, Number: int64(status.StopSignal())})
		}
		progress = true
	}
}

// checkClock terminates the program if only the grace time is left of the lease, and sets the timer for the next
// check.
//
// After a stop, or a long wait for the processor, a newer lease may have arrived that the keeper has not read
// yet. So checkClock waits for a moment before it acts on the lease.
func (k *keeper) checkClock() {
	t := k.now()
	wait := min(time.Duration(k.lease-k.grace-t), recheckInterval)
	if wait > 0 {
		k.doubtUntil = 0
	} else if k.killAt == never {
		if k.doubtUntil == 0 {
			k.doubtUntil = t + min(int64(doubtTime), k.grace/8)
		}
		if t < k.doubtUntil {
			k.timer.Reset(time.Duration(k.doubtUntil - t))
			return
		}
		k.zksh.send(record{Kind: reportOverdue})
		k.terminate(k.lease)
	}
	switch {
	case k.killAt != never:
		k.signalRest(syscall.SIGTERM, k.termed)
		wait = min(time.Duration(k.killAt-t), pollInterval)
	case k.ended && !adoptsOrphans: // no signal reports that the group is empty
		wait = min(wait, pollInterval)
	}
	k.timer.Reset(wait)
}
