package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// guard runs a command while the lock is held, and releases the lock when the
// command is gone. The signals that would end zksh go to the command, so ctx
// plays no part here.
func (o *owned) guard(env *commands.Env, lease *zklock.Lease, grace time.Duration, argv []string) error {
	stop := make(chan time.Time, 1)
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { o.watchLease(lease, grace, stop, over) })
	status, err := 0, error(nil)
	if expired(lease) { // asleep since it was got
		err = lossError(o.path, zklock.Status{State: zklock.PresumedLost})
	} else {
		status, err = runChild(childSpec{
			Argv: argv, Env: o.environment(lease), Streams: env.Streams, Grace: grace, Alert: env.Alert,
		}, stop)
	}
	close(over)
	watching.Wait()
	gone := expired(lease)
	releaseErr := o.releaseAfter(lease)
	switch {
	case gone:
		return &commands.FinalError{Err: &commands.StatusError{Status: statusLost,
			Err: errors.Join(fmt.Errorf("the lock on %s was lost, or nearly so, while %s ran", o.path, argv[0]), err)}}
	case status != 0 || err != nil:
		return errors.Join(&commands.StatusError{Status: status, Err: err}, releaseErr)
	}
	return releaseErr
}

// expired tells whether the lock must not be relied on any more.
func expired(lease *zklock.Lease) bool {
	select {
	case <-lease.Lost():
		return true
	default:
		return time.Until(lease.State().Until) <= 0
	}
}

func (o *owned) releaseAfter(lease *zklock.Lease) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	defer o.table.forget(o.server, lease)
	err := lease.Unlock(ctx)
	if errors.Is(err, zklock.ErrLost) {
		return nil // the loss is told otherwise
	}
	return err
}

func (o *owned) environment(lease *zklock.Lease) []string {
	return []string{
		"ZK_LOCK_PATH=" + o.path,
		"ZK_LOCK_NODE=" + lease.Node(),
		"ZK_LOCK_TOKEN=" + hex(lease.Token()),
		"ZK_LOCK_SESSION=" + hex(lease.SessionID()),
		"ZK_LOCK_MODE=" + o.label(lease),
	}
}

// label is the mode of a lease as it is shown.
func (o *owned) label(lease *zklock.Lease) string {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	for _, l := range o.leases {
		if l.Lease == lease {
			return l.kind.label
		}
	}
	return strconv.Quote(string(lease.Mode()))
}

// killBefore is how long before the end of the lease nothing of a command must be
// left. It covers the time a signal takes.
const killBefore = 200 * time.Millisecond

// watchLease orders the end of a command in time: with the lock lost at once,
// and so long before the lease ends that the grace fits in. The grace is cut to
// a third of the session timeout, because a lease of an idle, healthy session may
// be two thirds old.
func (o *owned) watchLease(lease *zklock.Lease, grace time.Duration, stop chan<- time.Time, over <-chan struct{}) {
	grace = min(grace, o.env.Session.Info().Timeout/3-killBefore)
	warned := time.Time{}
	for {
		end := lease.State().Until.Add(-killBefore)
		left := time.Until(end) - grace
		if left <= 0 {
			stop <- end
			return
		}
		if lease.State().State == zklock.Suspended && time.Since(warned) > countdownEvery {
			warned = time.Now()
			o.env.Alert(fmt.Sprintf("lock %s: no connection; the command is ended in %s", o.path, seconds(left)))
		}
		select {
		case <-over:
			return
		case <-lease.Lost():
			if s := lease.State(); s.State == zklock.Lost {
				end = time.Now().Add(grace)
			}
			stop <- end
			return
		case <-time.After(min(left, countdownEvery/4)):
		}
	}
}

// countdownEvery is how often a person is told how long a command has left.
const countdownEvery = 4 * time.Second
