//go:build unix && !aix && !solaris

package child

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A host is a running program and its keeper, as seen by zksh. Only the goroutine of Run calls its methods.
type host struct {
	tree
	spec    Spec
	keeper  *exec.Cmd
	link    link
	reports <-chan record
	tty     *terminal

	started bool               // whether the program has started
	ended   bool               // whether the program has ended
	status  syscall.WaitStatus // how the program has ended; SIGKILL until that is known
	overdue error              // ErrOverdue if the keeper has terminated the program without an order; otherwise nil
	killAt  int64              // time at which the keeper sends SIGKILL; never while the program may run

	knowsTree          bool             // whether zksh can kill everything without the keeper
	tick               *time.Timer      // time to renew the lease that the keeper knows
	settled            <-chan time.Time // fires when the user must know which processes the program has left
	waitingForTerminal bool             // whether the program needs the terminal, which another job has
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
	h := &host{spec: spec, tty: openTerminal(spec.Alert), status: syscall.WaitStatus(syscall.SIGKILL), killAt: never}
	defer h.tty.file.Close()
	defer catchSuspend(spec.Signals)()
	// The cause has only the text of the error. StartError.NotFound must not return true if something else than
	// the program is missing.
	if err := h.start(); err != nil {
		return 0, &StartError{spec.Argv[0], fmt.Errorf("zksh cannot start its helper process: %v", err)}
	}
	err = h.follow(stop)
	adoptOrphans(false)         // what is left must not become a child of zksh at the end of the keeper
	_ = h.keeper.Process.Kill() // fails if it has ended
	_ = h.keeper.Wait()         // not earlier, because its process id is the id of the program's group
	h.link.close(h.reports)
	h.tty.takeBack(h.status.Signaled())
	if !h.status.Signaled() {
		return h.status.ExitStatus(), err
	}
	sig := h.status.Signal()
	if sig == syscall.SIGINT || sig == syscall.SIGQUIT {
		spec.Signals.key, spec.Signals.keyUnshared = sig, h.tty.given
	}
	return 128 + int(sig), err
}

// start starts the keeper. If the keeper is killed, zksh becomes the parent of its children.
func (h *host) start() error {
	ours, theirs, err := newLink()
	if err != nil {
		return err
	}
	h.others, h.knowsTree = listChildren()
	h.keeper = h.spec.newCommand(executable(), append([]string{keeperName, strconv.Itoa(theirs)}, h.spec.Argv...))
	h.keeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = h.keeper.Start()
	syscall.Close(theirs)
	if err != nil {
		ours.file.Close()
		return err
	}
	h.link, h.group = ours, h.keeper.Process.Pid
	h.others = append(h.others, h.group)
	h.reports = h.link.receive() // ends with the keeper, or with h.link.close
	h.tick = time.NewTimer(shortPause)
	adoptOrphans(true)
	return nil
}

// executable returns the path of the zksh executable. On Linux, it refers to the executable of this process, even
// if an update has replaced the file. Without /proc, it is the path with which zksh was started. The path is empty
// if nothing is there any more.
func executable() string {
	const self = "/proc/self/exe"
	if _, err := os.Lstat(self); err == nil {
		return self
	}
	path, err := os.Executable()
	if err != nil {
		path, _ = exec.LookPath(os.Args[0])
	}
	return path
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
				return errors.Join(fmt.Errorf("%s was killed: %w", h.spec.Argv[0], errKeeper), h.replaceKeeper())
			}
			if over, err := h.handle(r); over {
				return err
			}
		case sig := <-signals:
			h.forward(sig.(syscall.Signal))
		case due := <-stops:
			h.terminate(fromNow(func() time.Duration { return time.Until(due) }))
		case <-h.settled:
			if h.settled = nil; h.announceRest() {
				return nil
			}
		case <-h.tick.C:
			h.wake()
			switch {
			case h.knowsTree && h.killAt != never && now() > h.killAt+int64(keeperHeadStart):
				_ = h.keeper.Process.Kill() // fails if it has ended
				return h.replaceKeeper()
			case hasEnded(h.group): // another child of zksh may have a copy of the keeper's end of the link
				h.link.shutdown()
			case h.started:
				h.link.send(record{Kind: orderLease, Time: fromNow(h.spec.Left)})
			}
			if h.waitingForTerminal && !h.ended {
				h.resume(syscall.SIGTTIN)
			}
			h.tick.Reset(h.pause())
		}
	}
}

// handle handles a report of the keeper, and reports whether it is the last one.
func (h *host) handle(r record) (over bool, err error) {
	switch r.Kind {
	case reportReady: // now, the keeper is in another group, which keys such as Ctrl-C do not reach
		ours := unix.Getpgrp()
		if h.tty.isOurs() && inForeground(h.spec.In, ours) && inForeground(h.spec.Out, ours) {
			h.tty.giveTo(h.group)
		}
		h.link.send(record{Kind: orderStart, Time: fromNow(h.spec.Left), Number: int64(h.spec.Grace)})
	case reportStarted:
		h.started = true
	case reportFailed:
		return true, &StartError{h.spec.Argv[0], syscall.Errno(r.Number)}
	case reportRefused:
		h.spec.Alert(fmt.Sprintf("cannot send a signal to %s: %s", h.spec.Argv[0], syscall.Errno(r.Number)))
	case reportStopped:
		h.resume(syscall.Signal(r.Number))
	case reportOverdue:
		h.overdue = ErrOverdue
	case reportKilling:
		h.killAt = now() + int64(2*killPatience) // the keeper itself gives up earlier
	case reportEnded: // a killed program cannot restore the modes of the terminal itself
		h.ended, h.status = true, syscall.WaitStatus(r.Number)
		h.tty.takeBack(h.status.Signaled())
		wait := announcePause
		if h.spec.Leave {
			wait = leavePause
		}
		h.settled = time.After(wait)
	case reportDone:
		return true, h.overdue
	case reportEscaped:
		return true, errors.Join(h.overdue, h.escaped(h.group))
	}
	return false, nil
}

const (
	shortPause      = 20 * time.Millisecond  // time between two ticks, if the keeper must not be late
	keeperHeadStart = 100 * time.Millisecond // time for the keeper to begin to kill before zksh does it itself
	announcePause   = time.Second            // time after which zksh says for which processes it waits
	leavePause      = 100 * time.Millisecond // time, with Spec.Leave, for processes that are about to end
)

// fromNow returns the time at which the duration that left returns has passed. It reads the clock before it
// calls left. If zksh is stopped in between, the time is too early, but never too late.
func fromNow(left func() time.Duration) int64 {
	t := now()
	return t + int64(left())
}

// pause returns the time until the next tick.
func (h *host) pause() time.Duration {
	if !h.started || h.killAt != never {
		return shortPause
	}
	return min(max(shortPause, (h.spec.Left()-h.spec.Grace)/4), recheckInterval)
}

// wake resumes the keeper if it was stopped, because a stopped keeper does not watch the lease. During the start,
// the keeper waits until the new process has become the program. If a Ctrl-Z has stopped that process, the keeper
// waits in vain, so the whole group must be resumed.
func (h *host) wake() {
	_ = h.keeper.Process.Signal(syscall.SIGCONT) // fails if it has ended, which follow notices
	if !h.started {
		_ = h.signal(syscall.SIGCONT) // fails if the keeper has ended
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
		h.link.send(record{Kind: orderSignal, Number: int64(sig)})
	}
}

// terminate makes the keeper send SIGTERM now, and SIGKILL at the time due or after the grace time, whichever
// is sooner. If terminate is called several times, the earliest of these times applies.
func (h *host) terminate(due int64) {
	h.killAt = min(h.killAt, due, now()+int64(h.spec.Grace))
	h.link.send(record{Kind: orderTerminate, Time: due})
	h.tick.Reset(h.pause())
}

// unnamed stands for the list of processes if zksh cannot read it.
const unnamed = "(zksh cannot name them)"

// announceRest says which processes the program has left, and what that means. It reports whether zksh leaves
// them alone, which it does not if they were ordered to terminate.
func (h *host) announceRest() (left bool) {
	rest := cmp.Or(describeTree(h.group), unnamed)
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
	rest := cmp.Or(describeTree(root), unnamed)
	h.spec.Alert("cannot terminate these processes, which continue without the lock: " + rest)
	return ErrEscaped
}

var errKeeper = errors.New("zksh's helper process for the command has exited")

// replaceKeeper kills everything after the keeper has ended, or zksh has killed it. On Linux, the kernel has
// killed the program itself, and zksh becomes the parent of everything else. It is certain to be complete only
// when the keeper has become a zombie: the end of the link comes earlier.
func (h *host) replaceKeeper() error {
	complete := h.killAll(func() (progress, empty bool) {
		empty = hasEnded(h.group) || !adoptsOrphans
		for _, pid := range h.children() {
			reaped, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // 0 if it runs
			progress = progress || reaped == pid
			empty = false
		}
		return progress, empty && h.groupIsEmpty()
	})
	if complete && h.knowsTree {
		return nil
	}
	return h.escaped(os.Getpid())
}

// resume decides what to do after sig has stopped the program. If the program needs the terminal, it gets it as
// soon as no other job has it. If the program has the terminal, resume continues it: nobody else could, because
// zksh does not stop, and so the shell that has started zksh knows of no stopped job. Otherwise the program
// stays stopped, and zksh holds the lock.
func (h *host) resume(sig syscall.Signal) {
	name := h.spec.Argv[0]
	switch {
	case sig == syscall.SIGTTIN || sig == syscall.SIGTTOU:
		if !h.tty.isOurs() && !inForeground(h.tty.file, h.group) {
			if !h.waitingForTerminal {
				h.waitingForTerminal = true
				h.spec.Alert(name + " is waiting for the terminal, which another job is using; zksh still holds the lock")
			}
			return
		}
		h.tty.giveTo(h.group)
		h.waitingForTerminal = false
	case inForeground(h.tty.file, h.group):
		h.spec.Alert(name + " was stopped; zksh continues it, because zksh itself must not stop while it holds the lock")
	default:
		h.spec.Alert(name + " was stopped; zksh still holds the lock")
		return
	}
	h.link.send(record{Kind: orderSignal, Number: int64(syscall.SIGCONT)})
}

// PassKeyOn passes Ctrl-C or Ctrl-\ on to zksh's own process group if it has killed the program, and only the
// program's group has received it. Without the lock, the program would be in zksh's group. So a script that
// runs zksh ends, too. The caller must have released the lock, because zksh itself gets the signal as well.
// PassKeyOn waits until the signal has canceled ctx: otherwise, it could interrupt what zksh does next.
// PassKeyOn reports whether SIGINT has killed the program.
func (l *Listener) PassKeyOn(ctx context.Context) (interrupted bool, err error) {
	if l.keyUnshared && !signal.Ignored(l.key) {
		err = unix.Kill(0, l.key)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second): // the parent of zksh may have blocked the signal
		}
	}
	return l.key == syscall.SIGINT, err
}
