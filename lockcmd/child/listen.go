package child

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Listener takes the signals that are meant for a program under a lock. It is
// opened before the lock is asked for, so that none is lost between the moment at
// which the lock is there and the one at which the program is.
type Listener struct{ signals chan os.Signal }

// Listen begins to take the signals. One that is ignored stays so.
func Listen() *Listener {
	l := &Listener{make(chan os.Signal, 16)}
	for _, sig := range forwardedSignals {
		l.add(sig)
	}
	return l
}

// Close ends it.
func (l *Listener) Close() { signal.Stop(l.signals) }

func (l *Listener) add(sig os.Signal) {
	if !signal.Ignored(sig) {
		signal.Notify(l.signals, sig)
	}
}

// early is the signal that came before the program was started and forbids the
// start, or nil. Others had nobody to go to, and are dropped.
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

// notStarted is the status and the error of a program that a signal forestalled.
func notStarted(name string, sig os.Signal) (int, error) {
	number, _ := sig.(syscall.Signal) // it is one on every system
	return 128 + int(number), fmt.Errorf("%s was not started, because zksh received the signal %q first", name, sig)
}
