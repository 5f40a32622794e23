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
	warnings warnings
	fence    *fence                                                    // nil if the shell has no fence
	run      func(spec child.Spec, stop <-chan time.Time) (int, error) // runs a command; always runChild, except in tests

	background     context.Context // context of waits and releases in the background; ended by stopBackground
	stopBackground context.CancelFunc

	mu             sync.Mutex
	locks          map[key]*shellLock
	seq            int // number of leases acquired so far; locks are released in reverse order
	ownerLocks     []ownerLock
	yielded        []*yieldedLock
	ending         bool // set by Release; no new background work may start
	backgroundWork sync.WaitGroup
	tickets        ticketWatch
}

// A yieldedLock is a lock that zksh released at another client's request. It stays in
// Table.yielded until Lost has reported the release.
type yieldedLock struct {
	stay  zkconn.Ensemble
	nodes []string // znodes that the fence checks until Lost has reported the release
	err   error    // error for Lost to return; nil while the release is in progress
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
	gone := revoked.stopError(o.path)
	d := &yieldedLock{stay: o.key.stay}
	o.apply(func() {
		if o.env.Mode == commands.Batch {
			d.nodes = o.nodesOf(o.leases...)
		}
		t.yielded = append(t.yielded, d)
	})
	o.releaseAll(t.background, func(e outcome, err error) {
		if e == lost {
			gone = err
			return
		}
		if e == rejected {
			gone = nil
		}
		o.notify("lock " + err.Error())
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.err = gone; gone == nil {
		t.yielded = slices.DeleteFunc(t.yielded, func(other *yieldedLock) bool { return other == d })
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

// Lost returns an error that names each lock that was lost, or released at another client's
// request, since the last call. It returns nil if there is none.
func (t *Table) Lost() error {
	all := t.all()
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	t.yielded = slices.DeleteFunc(t.yielded, func(d *yieldedLock) bool {
		if d.err != nil {
			errs = append(errs, fmt.Errorf("%w%s", d.err, t.fence.continueWithout(d.nodes...)))
		}
		return d.err != nil
	})
	for _, o := range all {
		if o.markLossReported() {
			err := lossOf(o.path, o.status)
			if o.status.State == zklock.Lost {
				err = fmt.Errorf("%w%s", err, t.fence.continueWithout(o.nodesOf(o.leases...)...))
			}
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return lockLost(errors.Join(errs...))
}

// Release releases all locks, newest first, and returns the paths of the locks that were held. A
// lock that cannot be released ends with the session.
func (t *Table) Release(ctx context.Context) (held []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	defer time.AfterFunc(releaseTimeout/2, t.stopBackground).Stop() // leaves the second half of the time for printing notices
	t.mu.Lock()
	t.ending = true
	t.mu.Unlock()
	t.tickets.end()
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
		o.apply(func() { lossKnown, rejectionKnown = o.maybeLost() || o.lossReported, o.releaseRejected })
		if !lossKnown {
			held = append(held, o.path)
		}
		o.releaseAll(ctx, func(e outcome, err error) {
			if !(lossKnown && e == lost) && !(rejectionKnown && e == rejected) {
				errs = append(errs, err)
			}
		})
		if err := o.drain(ctx); err != nil && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("%s: %w", o.path, zklock.ErrUnconfirmed))
		}
	}
	t.warnings.probes.Wait() // they end with t.background
	return held, errors.Join(append(errs, t.notifier.finish(ctx))...)
}

var errLeaving = errors.New("the shell is exiting")

// InQueue reports whether name is the name of a znode in a lock's queue. Such a znode must not
// outlive the session that created it.
func InQueue(name string) bool {
	n, ok := zklock.ParseName(name)
	return ok && n.Number != zklock.NoNumber
}
