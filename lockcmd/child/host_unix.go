//go:build unix && !aix && !solaris

package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/tty"
)

// A host is a running program and its keeper, as seen by zksh. Only the goroutine of Run calls its methods.
type host struct {
	tree
	spec    Spec
	keeper  *exec.Cmd
	link    link
	reports <-chan record
	tty     *terminal // controlling terminal of zksh; nil if there is none

	usesTerminal bool // whether the program gets the terminal before it starts

	started bool               // whether the program has started
	ended   bool               // whether the program has ended
	status  syscall.WaitStatus // how the program has ended
	killAt  int64              // time at which the keeper sends SIGKILL; never while the program may run

	tick               *time.Timer      // time for the next call of renew
	settled            <-chan time.Time // fires when the user must know which processes the program has left
	retryTerminal      <-chan time.Time // fires when zksh must try again to give the program the terminal
	waitingForTerminal bool             // whether the user knows that another job has the terminal
}

// forwardedSignals are the signals that zksh passes on to the program.
var forwardedSignals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2,
}

// terminates reports whether a signal normally terminates a program. After such a signal, zksh does not start a
// program.
func terminates(sig os.Signal) bool {
	return sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 && sig != syscall.SIGTSTP
}

// supervise starts the program through a keeper, and waits until it may return.
func supervise(spec Spec, stop <-chan time.Time) (status int, err error) {
	h := &host{spec: spec, killAt: never, tty: openTerminal()}
	defer h.tty.close()
	h.usesTerminal = h.tty.isOurs() && isControlling(spec.In) && isControlling(spec.Out)
	h.alertError(enter(spec.Signals))
	defer func() { h.alertError(leave()) }()
	if sig := spec.Signals.earlySignal(); sig != nil {
		return notStarted(spec.Argv[0], sig)
	}
	// The cause has only the text of the error. StartError.NotFound must not return true if something else than
	// the program is missing.
	if err := h.start(); err != nil {
		return 0, &StartError{spec.Argv[0], fmt.Errorf("zksh cannot start its helper process: %v", err)}
	}
	err = h.follow(stop)
	adoptOrphans(false) // what is left must not become a child of zksh at the end of the keeper
	h.dismiss()
	h.alertError(h.tty.takeBack(h.status.Signaled()))
	if h.status.Signaled() && (h.status.Signal() == syscall.SIGINT || h.status.Signal() == syscall.SIGQUIT) {
		spec.Signals.key, spec.Signals.keyUnshared = h.status.Signal(), h.tty != nil && h.tty.given
	}
	return exitStatus(h.status), err
}

// exitStatus converts a wait status to the exit status that a shell reports.
func exitStatus(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// start starts the keeper.
func (h *host) start() error {
	self, err := executable()
	if err != nil {
		return err
	}
	ours, theirs, err := newLink()
	if err != nil {
		return err
	}
	h.others = map[int]bool{}
	for _, pid := range h.children() {
		h.others[pid] = true
	}
	h.keeper = h.spec.newCommand(self, append([]string{keeperName, strconv.Itoa(theirs)}, h.spec.Argv...))
	h.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = h.keeper.Start()
	syscall.Close(theirs)
	if err != nil {
		ours.file.Close()
		return err
	}
	h.link, h.group = ours, h.keeper.Process.Pid
	h.others[h.group] = true
	h.reports = h.link.receive() // ends with the keeper, or with dismiss
	h.tick = time.NewTimer(startPause)
	if !h.usesTerminal {
		h.orderStart()
	}
	return nil
}

// orderStart makes the keeper start the program as soon as it can.
func (h *host) orderStart() {
	h.link.send(record{Kind: orderStart, Time: h.lease(), Grace: int64(h.spec.Grace)})
}

// dismiss ends the keeper. zksh must not reap the keeper before, because its process id is the id of the
// program's group.
func (h *host) dismiss() {
	h.tick.Stop()
	_ = h.keeper.Process.Kill() // fails if it has ended
	_ = h.keeper.Wait()         // its exit status is not used
	h.link.close(h.reports)
}

// follow handles reports, signals and deadlines until zksh need not wait any more.
func (h *host) follow(stop <-chan time.Time) error {
	for {
		signals, stops := h.spec.Signals.signals, stop
		if !h.started {
			signals, stops = nil, nil
		}
		select {
		case r, ok := <-h.reports:
			if !ok {
				return h.replaceKeeper(errKeeper)
			}
			if over, err := h.handle(r); over {
				return err
			}
		case sig := <-signals:
			h.forward(sig.(syscall.Signal))
		case due, ok := <-stops:
			if !ok {
				stop = nil
				continue
			}
			h.terminate(fromNow(func() time.Duration { return time.Until(due) }))
		case <-h.retryTerminal:
			h.resume(syscall.SIGTTIN)
		case <-h.settled:
			if h.settled = nil; len(stop) == 0 && h.announceRest() {
				return nil
			}
		case <-h.tick.C:
			h.wakeKeeper()
			switch {
			case h.killAt != never && now() > h.killAt+int64(keeperHeadStart):
				_ = h.keeper.Process.Kill() // fails if it has ended
				return h.replaceKeeper(nil)
			case hasEnded(h.group): // another child of zksh may have a copy of the keeper's end of the link
				return h.replaceKeeper(errKeeper)
			case h.started:
				h.link.send(record{Kind: orderLease, Time: h.lease()})
			}
			h.tick.Reset(h.pause())
		}
	}
}

// handle handles a report of the keeper, and reports whether it is the last one.
func (h *host) handle(r record) (over bool, err error) {
	switch r.Kind {
	case reportReady:
		if h.usesTerminal { // now, Ctrl-C cannot end the keeper any more
			h.alertError(h.tty.giveTo(h.group))
			h.orderStart()
		}
	case reportStarted:
		h.started = true
		h.tick.Reset(h.pause())
	case reportFailed:
		return true, &StartError{h.spec.Argv[0], syscall.Errno(r.Number)}
	case reportRefused:
		h.spec.Alert(fmt.Sprintf("cannot send a signal to %s: %s", h.spec.Argv[0], syscall.Errno(r.Number)))
	case reportStopped:
		h.resume(syscall.Signal(r.Number))
	case reportKilling:
		h.killAt = now() + int64(2*killPatience) // the keeper itself gives up earlier
	case reportEnded:
		h.programEnded(syscall.WaitStatus(r.Number))
		wait := announcePause
		if h.spec.Leave {
			wait = leavePause
		}
		h.settled = time.After(wait)
	case reportDone:
		h.programEnded(syscall.WaitStatus(r.Number))
		if r.Overdue {
			err = ErrOverdue
		}
		if r.Escaped {
			err = errors.Join(err, h.escaped(h.group))
		}
		return true, err
	}
	return false, nil
}

const (
	startPause       = 50 * time.Millisecond  // time after which zksh wakes a keeper that has not started the program
	minRenewInterval = 20 * time.Millisecond  // time between two renewals of a lease that is about to end
	keeperHeadStart  = 100 * time.Millisecond // time for the keeper to begin to kill before zksh does it itself
	announcePause    = time.Second            // time after which zksh says for which processes it waits
	leavePause       = 100 * time.Millisecond // time, with Spec.Leave, for processes that are about to end
)

// lease returns the end of the lease.
func (h *host) lease() int64 {
	if h.spec.Left == nil {
		return never
	}
	return fromNow(h.spec.Left)
}

// fromNow returns the time at which the duration that left returns has passed. It reads the clock before it
// calls left. If zksh is stopped in between, the time is too early, but never too late.
func fromNow(left func() time.Duration) int64 {
	t := now()
	return t + int64(left())
}

// pause returns the time until the next tick.
func (h *host) pause() time.Duration {
	if !h.started {
		return startPause
	}
	wait := recheckInterval
	if h.spec.Left != nil {
		wait = min(wait, max(minRenewInterval, (h.spec.Left()-h.spec.Grace)/4))
	}
	if h.killAt != never {
		wait = min(wait, max(minRenewInterval, time.Duration(h.killAt-now())+keeperHeadStart))
	}
	return wait
}

// wakeKeeper resumes the keeper if it was stopped, because a stopped keeper does not watch the lease. During
// the start, the keeper waits until the new process has become the program. If a Ctrl-Z has stopped that
// process, the keeper waits in vain, so the whole group must be resumed.
func (h *host) wakeKeeper() {
	_ = h.keeper.Process.Signal(syscall.SIGCONT) // fails if it has ended, which follow notices
	if !h.started {
		_ = h.signal(syscall.SIGCONT) // fails if the keeper has ended
	}
}

// alertError shows err to the user unless it is nil.
func (h *host) alertError(err error) {
	if err != nil {
		h.spec.Alert(err.Error())
	}
}

// forward passes a signal on to the program's group. If the program has ended, and the signal normally
// terminates a program, it terminates the processes that the program has left: those of a shell's background
// jobs ignore SIGINT. forward does not pass on SIGTSTP.
func (h *host) forward(sig syscall.Signal) {
	switch {
	case sig == syscall.SIGTSTP:
		h.spec.Alert("zksh was not suspended, because the lock would be lost in the meantime")
	case h.ended && terminates(sig):
		h.terminate(never)
	default:
		h.link.send(record{Kind: orderSignal, Number: int32(sig)})
	}
}

// terminate makes the keeper send SIGTERM now, and SIGKILL at the time due or after the grace time, whichever
// is sooner. If terminate is called several times, the earliest of these times applies.
func (h *host) terminate(due int64) {
	h.killAt = min(h.killAt, due, now()+int64(h.spec.Grace))
	h.wakeKeeper()
	h.link.send(record{Kind: orderTerminate, Time: due})
	h.tick.Reset(h.pause())
}

// programEnded records how the program has ended, and takes the terminal back. A killed program cannot restore
// the modes of the terminal itself.
func (h *host) programEnded(status syscall.WaitStatus) {
	h.ended, h.status = true, status
	h.alertError(h.tty.takeBack(status.Signaled()))
}

// announceRest says which processes the program has left, and what that means. It reports whether zksh leaves
// them alone, which it does not if they were ordered to terminate.
func (h *host) announceRest() (left bool) {
	rest := describeTree(h.group)
	if rest == "" {
		rest = "processes that zksh cannot name"
	}
	if h.spec.Leave && h.killAt == never {
		h.spec.Alert(fmt.Sprintf("%s has ended; these processes of it run on without the lock: %s", h.spec.Argv[0], rest))
		return true
	}
	h.spec.Alert(fmt.Sprintf("%s has ended; zksh holds the lock until these processes of it have ended, too: %s; "+
		"Ctrl-C terminates them; with --leave, zksh does not wait for them", h.spec.Argv[0], rest))
	return false
}

// escaped tells the user which processes below root could not be killed, and returns ErrEscaped.
func (h *host) escaped(root int) error {
	if rest := describeTree(root); rest != "" {
		h.spec.Alert("cannot terminate these processes, which continue without the lock: " + rest)
	}
	return ErrEscaped
}

var errKeeper = errors.New("zksh's helper process for the command has exited")

// replaceKeeper kills everything after the keeper has ended, or zksh has killed it. why is the error to report,
// or nil. On Linux, the kernel has killed the program itself, and zksh becomes the parent of everything else.
// It is certain to be complete only when the keeper has become a zombie: the end of the link comes earlier.
func (h *host) replaceKeeper(why error) error {
	if !h.ended {
		h.programEnded(syscall.WaitStatus(syscall.SIGKILL))
	}
	if why != nil {
		why = fmt.Errorf("%s was killed: %w", h.spec.Argv[0], why)
	}
	complete := h.killAll(func() (progress, empty bool) {
		if !adoptsOrphans {
			return false, h.groupIsEmpty()
		}
		empty = hasEnded(h.group)
		for _, pid := range h.children() {
			reaped, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // 0 if it runs
			progress = progress || reaped == pid
			empty = false
		}
		return progress, empty
	})
	if !complete {
		why = errors.Join(why, h.escaped(os.Getpid()))
	}
	return why
}

// resume decides what to do after sig has stopped the program. If the program needs the terminal, it gets it as
// soon as no other job has it. If the program has the terminal, resume continues it: nobody else could, because
// zksh does not stop, and so the shell that has started zksh knows of no stopped job. Otherwise the program
// stays stopped, and zksh holds the lock.
func (h *host) resume(sig syscall.Signal) {
	h.retryTerminal = nil
	name := h.spec.Argv[0]
	switch {
	case sig == syscall.SIGTTIN || sig == syscall.SIGTTOU:
		if !h.tty.isOurs() && !h.tty.hasGroup(h.group) {
			h.retryTerminal = time.After(time.Second)
			if !h.waitingForTerminal {
				h.waitingForTerminal = true
				h.spec.Alert(name + " is waiting for the terminal, which another job is using; zksh still holds the lock")
			}
			return
		}
		h.alertError(h.tty.giveTo(h.group))
		h.waitingForTerminal = false
	case h.tty.hasGroup(h.group):
		h.spec.Alert(name + " was stopped; zksh continues it, because zksh itself must not stop while it holds the lock")
	default:
		h.spec.Alert(name + " was stopped; zksh still holds the lock")
		return
	}
	h.link.send(record{Kind: orderSignal, Number: int32(syscall.SIGCONT)})
}

// PassKeyOn passes Ctrl-C or Ctrl-\ on to zksh's own process group if it has killed the program, and only the
// program's group has received it. Without the lock, the program would be in zksh's group. So a script that
// runs zksh ends, too. The caller must have released the lock, because zksh itself gets the signal as well.
// PassKeyOn waits until the signal has canceled ctx: otherwise, it could interrupt what zksh does next.
// PassKeyOn reports whether SIGINT has killed the program.
func (l *Listener) PassKeyOn(ctx context.Context) (interrupted bool, err error) {
	if l.key != nil && l.keyUnshared && !isIgnored(l.key.(syscall.Signal)) {
		err = unix.Kill(0, l.key.(syscall.Signal))
		select {
		case <-ctx.Done():
		case <-time.After(keySignalTimeout):
		}
	}
	return l.key == syscall.SIGINT, err
}

// keySignalTimeout is how long PassKeyOn waits for a signal that the parent of zksh may have blocked.
const keySignalTimeout = time.Second

// isControlling reports whether f is the controlling terminal of zksh.
func isControlling(f *os.File) bool {
	_, err := tty.Foreground(f)
	return err == nil
}
