// Package lockcmd implements the lock commands lock, rlock, wlock, unlock, locks and revoke,
// and the commands servers and session. It also contains the fence, which makes writes depend
// on held locks.
//
// Begin reading with Table, which contains the locks of one shell. A shellLock is one entry of
// the table, and its lifecycle is the state machine that decides what happens to the lock and to
// the command under it. To follow a lock command from start to end, read lockAndRun in lock.go.
//
// The lock recipe is in package zklock, the supervision of commands in package child, the
// reading of queues in package queue, and the command lockdemo in package demo.
//
// This package is part of the program zksh and may change at any time.
package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/child"
	"github.com/zksh/zksh/lockcmd/demo"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// A Table contains the locks that one shell holds and waits for. Its methods may be called
// from any goroutine, but only one command runs at a time.
type Table struct {
	notifier notifier
	fence    *fence                                                    // nil if the shell has no fence
	run      func(spec child.Spec, stop <-chan time.Time) (int, error) // runs a command; always runChild, except in tests

	interrupted atomic.Bool // whether SIGINT has killed a command

	background     context.Context // context of waits and releases in the background; ended by stopBackground
	stopBackground context.CancelFunc

	mu             sync.Mutex
	locks          map[key]*shellLock
	seq            int // number of leases acquired so far; locks are released in reverse order
	ownerLocks     []ownerLock
	ended          []*endedLock
	ending         bool // set by Release; no new background work may start
	backgroundWork sync.WaitGroup
}

// An endedLock is a lock that the shell does not hold, although a script may rely on it: the shell
// lost the lock, released it at another client's request, or failed to acquire it in the background.
// It stays in Table.ended until Lost has reported this.
type endedLock struct {
	stay  zkconn.Ensemble
	nodes []string // znodes that the fence checks until Lost has reported the end
	err   error    // error for Lost to return; nil while a release is in progress
}

// A key identifies a lock by its ensemble and its path there.
type key struct {
	stay zkconn.Ensemble
	path string // path of the lock, including the chroot
}

// New returns an empty table.
func New() *Table {
	t := &Table{locks: map[key]*shellLock{}, run: runChild}
	t.background, t.stopBackground = context.WithCancel(context.Background())
	return t
}

// Commands returns the lock commands, which act on this table, and the commands servers,
// session and lockdemo.
func (t *Table) Commands() []*commands.Command {
	return []*commands.Command{t.lockCommand(lockKinds[0]), t.lockCommand(lockKinds[1]), t.lockCommand(lockKinds[2]),
		t.unlockCommand(), t.locksCommand(), t.revokeCommand(), serversCommand, sessionCommand, demo.Command()}
}

// find returns the lock at path in the current ensemble, or nil.
func (t *Table) find(env *commands.Env, path string) *shellLock {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.locks[key{env.Session.Ensemble(), env.Session.ServerPath(path)}]
}

// all returns the locks of the table, the most recently acquired first. It first drops the
// locks of ensembles that the user has left with close or connect.
func (t *Table) all() []*shellLock {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.locks {
		if o.closed() {
			o.sessionClosed(t.ending)
			t.carryOut(o)
		}
	}
	if len(t.locks) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(t.locks), func(a, b *shellLock) int { return cmp.Compare(b.newestSeq(), a.newestSeq()) })
}

// yield releases a lock because another client asked for it. If the shell exits during the
// release, the release gets less time.
//
// An interactive user has already seen a notice of the request. In a script, commands that have
// already begun may rely on the lock. The fence therefore continues to check the lock's znodes
// until Lost has reported the release.
func (t *Table) yield(o *shellLock) {
	gone := lockLost(revoked.stopError(o.path))
	d := &endedLock{stay: o.key.stay}
	o.apply(func() {
		if o.env.Mode == commands.Batch {
			d.nodes = o.nodesOf(o.leases...)
		}
		t.ended = append(t.ended, d)
	})
	o.releaseAll(t.background, func(e outcome, err error) {
		switch e {
		case released:
			return
		case lost:
			gone = err
			return
		case rejected:
			gone = nil
		}
		o.notify("lock " + err.Error())
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.err = gone; gone == nil {
		t.ended = slices.DeleteFunc(t.ended, func(other *endedLock) bool { return other == d })
	}
}

// runInBackground runs f in a goroutine and returns true, or returns false if the shell is
// exiting. Release waits for f. The caller must hold t.mu.
func (t *Table) runInBackground(f func()) bool {
	if !t.ending {
		t.backgroundWork.Go(f)
	}
	return !t.ending
}

// Held returns the number of locks that are held, and the number of locks that are lost or
// presumed lost.
func (t *Table) Held() (held, gone int) {
	has := func(o *shellLock) bool { return len(o.leases) > 0 && !o.closed() }
	gone = t.count(func(o *shellLock) bool { return has(o) && o.maybeLost() })
	return t.count(has) - gone, gone
}

// Paths returns the paths of the locks that are held or waited for. Tab completion offers them.
func (t *Table) Paths() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var paths []string
	for _, o := range t.locks {
		if !o.closed() {
			paths = append(paths, o.path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Guarding reports whether a command runs under a lock.
func (t *Table) Guarding() bool {
	return t.count(func(o *shellLock) bool { return o.command != nil }) > 0
}

// Interrupted reports whether SIGINT has killed a command under a lock. If that was the last command,
// zksh must also end with SIGINT: a shell script that runs zksh ends only if it learns of Ctrl-C.
func (t *Table) Interrupted() bool { return t.interrupted.Load() }

func (t *Table) count(which func(*shellLock) bool) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.locks {
		if which(o) {
			n++
		}
	}
	return n
}

// Lost returns an error that names each lock that was lost, was released at another client's
// request, or could not be acquired in the background, since the last call. It returns nil if there
// is none.
func (t *Table) Lost() error {
	all := t.all()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range all {
		t.recordLoss(o)
	}
	var errs []error
	t.ended = slices.DeleteFunc(t.ended, func(d *endedLock) bool {
		if d.err != nil {
			errs = append(errs, fmt.Errorf("%w%s", d.err, t.fence.continueWithout(d.nodes...)))
		}
		return d.err != nil
	})
	return errors.Join(errs...)
}

// recordLoss adds the lock to t.ended if it is lost or presumed lost, and that was not reported yet.
// The caller must hold t.mu.
func (t *Table) recordLoss(o *shellLock) {
	if !o.markLossReported() {
		return
	}
	d := &endedLock{stay: o.key.stay, err: lockLost(lossOf(o.path, o.status))}
	if o.status.State == zklock.Lost {
		d.nodes = o.nodesOf(o.leases...)
	}
	t.ended = append(t.ended, d)
}

// Release releases all locks, newest first, and returns the paths of the locks that it released. A
// lock that cannot be released ends with the session. Release cancels all waits in the background.
// After it, Lost reports the losses that were not reported before, and the canceled waits of a script.
func (t *Table) Release(ctx context.Context) (paths []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	defer time.AfterFunc(releaseTimeout/2, t.stopBackground).Stop() // leaves the second half of the time for printing notices
	t.mu.Lock()
	t.ending = true
	t.mu.Unlock()
	for _, o := range t.all() {
		var a *attempt
		o.apply(func() {
			if a = o.attempt; a != nil && !o.closed() { // in a closed ensemble, the attempt ends on its own and reports the reason
				a.cancel(errLeaving)
			}
		})
		if a == nil {
			continue
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			a.cancel(errLeaving)
		}
	}
	// This does not block for long: attempts are canceled, and releases end with t.background.
	t.backgroundWork.Wait()
	var errs []error
	for _, o := range t.all() {
		var lossKnown, rejectionKnown bool
		o.apply(func() {
			t.recordLoss(o)
			lossKnown, rejectionKnown = o.lossReported, o.releaseRejected
		})
		confirmed := false
		o.releaseAll(ctx, func(e outcome, err error) {
			confirmed = e == released
			if !confirmed && !(lossKnown && e == lost) && !(rejectionKnown && e == rejected) {
				errs = append(errs, err)
			}
		})
		if confirmed {
			paths = append(paths, o.path)
		}
		if err := o.drain(ctx); err != nil && len(errs) == 0 {
			errs = append(errs, notConfirmed(fmt.Errorf("%s: %w", o.path, zklock.ErrUnconfirmed)))
		}
	}
	return paths, errors.Join(append(errs, t.notifier.finish(ctx))...)
}

var errLeaving = errors.New("the shell is exiting")

// InQueue reports whether name is the name of a znode in a lock's queue. Such a znode must not
// outlive the session that created it.
func InQueue(name string) bool {
	n, ok := zklock.ParseName(name)
	return ok && n.Number != zklock.NoNumber
}
