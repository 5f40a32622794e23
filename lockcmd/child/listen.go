package child

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// A Listener receives the signals that are meant for a program under a lock. It is opened before the lock is
// requested, so that no signal is lost between the grant of the lock and the start of the program.
type Listener struct {
	signals     chan os.Signal
	key         os.Signal // SIGINT or SIGQUIT if it has killed the program; otherwise nil
	keyUnshared bool      // whether zksh's own process group has not received the key
}

// Listen begins to receive the signals that are meant for a program. A signal that zksh ignores stays ignored.
func Listen() *Listener {
	l := &Listener{signals: make(chan os.Signal, 16)}
	for _, sig := range forwardedSignals {
		l.add(sig)
	}
	return l
}

// Close stops receiving signals.
func (l *Listener) Close() { signal.Stop(l.signals) }

func (l *Listener) add(sig os.Signal) {
	if !signal.Ignored(sig) {
		signal.Notify(l.signals, sig)
	}
}

// earlySignal returns a signal that arrived before the program was started and that would terminate it, or nil
// if there is none. It discards other signals, because no program can receive them yet.
func (l *Listener) earlySignal() os.Signal {
	for {
		select {
		case sig := <-l.signals:
			if terminates(sig) {
				return sig
			}
		default:
			return nil
		}
	}
}

// notStarted returns the status and the error for a program that was not started because of a signal.
func notStarted(name string, sig os.Signal) (int, error) {
	number, _ := sig.(syscall.Signal) // every os.Signal is a syscall.Signal
	return 128 + int(number), fmt.Errorf("%s was not started, because zksh received the signal %q first", name, sig)
}
