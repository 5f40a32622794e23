package child

import (
	"os"
	"os/signal"
	"syscall"
)

// A Listener receives the signals that are meant for a program under a lock. It is opened before the lock is
// requested, so that no signal is lost between the grant of the lock and the start of the program.
type Listener struct {
	signals     chan os.Signal
	key         syscall.Signal // SIGINT or SIGQUIT if it has killed the program; otherwise 0
	keyUnshared bool           // whether zksh's own process group has not received the key
}

// Listen begins to receive the signals that are meant for a program. A signal that zksh ignores stays ignored.
func Listen() *Listener {
	l := &Listener{signals: make(chan os.Signal, 16)}
	for _, sig := range forwardedSignals {
		if !signal.Ignored(sig) {
			signal.Notify(l.signals, sig)
		}
	}
	return l
}

// Close stops receiving signals.
func (l *Listener) Close() { signal.Stop(l.signals) }

// earlySignal returns a signal that arrived before the program was started and that would terminate it, or 0 if
// there is none. It discards other signals, because no program can receive them yet.
func (l *Listener) earlySignal() syscall.Signal {
	for {
		select {
		case sig := <-l.signals:
			if terminates(sig) {
				return sig.(syscall.Signal)
			}
		default:
			return 0
		}
	}
}
