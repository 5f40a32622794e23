// Package lockcmd has the lock commands: lock, rlock, wlock, unlock, locks and
// revoke, and the table of what a shell holds. The recipe is in package zklock,
// lockdemo in package demo.
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

// Table is what one shell holds and waits for. Its methods may be called from
// any goroutine; commands run one at a time.
type Table struct {
	crier crier
	fence *fence                                                    // nil without one
	run   func(spec child.Spec, stop <-chan time.Time) (int, error) // runChild

	staying context.Context // of what goes on in the background; ended by leave
	leave   context.CancelFunc

	mu      sync.Mutex
	locks   map[key]*owned
	seq     int // counts what was taken, for the order of release
	gone    []*departure
	ending  bool // Release was called: nothing new is begun
	working sync.WaitGroup
}

// departure is a lock that goes without unlock, and without a loss. It counts until Lost
// has told of it.
type departure struct {
	at    zkconn.Ensemble
	nodes []string // that stay a fence until then
	err   error    // what is to be told; nil as long as it is not known
}

// key is a path in one ensemble.
type key struct {
	at   zkconn.Ensemble
	path string // on the server
}

// New makes an empty table.
func New() *Table {
	t := &Table{locks: map[key]*owned{}, run: runChild}
	t.staying, t.leave = context.WithCancel(context.Background())
	return t
}

// Commands are the lock commands, which act on this table, those that look at
// the ensemble with the same eyes, and lockdemo.
func (t *Table) Commands() []*commands.Command {
	return []*commands.Command{t.lockCommand(lockKinds[0]), t.lockCommand(lockKinds[1]), t.lockCommand(lockKinds[2]),
		t.unlockCommand(), t.locksCommand(), t.revokeCommand(), serversCommand, sessionCommand, demo.Command()}
}

// find is the entry of a path in the present ensemble, or nil.
func (t *Table) find(env *commands.Env, path string) *owned {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.locks[key{env.Session.Ensemble(), env.Session.ServerPath(path)}]
}

// all lists the paths, the one taken last first. What the person has left by
// close or connect is not among them.
func (t *Table) all() []*owned {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.locks {
		if o.deserted() {
			o.abandoned(t.ending)
			t.follow(o)
		}
	}
	if len(t.locks) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(t.locks), func(a, b *owned) int { return cmp.Compare(b.newest(), a.newest()) })
}

// yield releases a lock that another client asked for. The end of the shell leaves it less
// time. A person is told of it at once; lines of a batch that are on their way rely on it.
func (t *Table) yield(o *owned) {
	gone := revoked.on(o.path)
	d := &departure{at: o.key.at}
	o.with(func() {
		if o.env.Mode == commands.Batch {
			d.nodes = nodesOf(o.key.path, o.leases...)
		}
		t.gone = append(t.gone, d)
	})
	o.releaseAll(t.staying, func(e end, err error) {
		if e == lost {
			gone = err
			return
		}
		if e == rejected {
			gone = nil
		}
		o.say("lock " + err.Error())
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	if d.err = gone; gone == nil {
		t.gone = slices.DeleteFunc(t.gone, func(other *departure) bool { return other == d })
	}
}

// work runs f in the background, unless the shell ends; Release waits for it.
// Called with the table's lock held.
func (t *Table) work(f func()) bool {
	if !t.ending {
		t.working.Go(f)
	}
	return !t.ending
}

// Held counts the locks that are held, and those that are lost or may be.
func (t *Table) Held() (held, gone int) {
	has := func(o *owned) bool { return len(o.leases) > 0 && !o.deserted() }
	gone = t.count(func(o *owned) bool { return has(o) && o.gone() })
	return t.count(has) - gone, gone
}

// Paths are those of the locks that are held or waited for, for completion.
func (t *Table) Paths() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var paths []string
	for _, o := range t.locks {
		if !o.deserted() {
			paths = append(paths, o.path)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// Guarding reports whether a command runs under a lock.
func (t *Table) Guarding() bool { return t.count(func(o *owned) bool { return o.command != nil }) > 0 }

func (t *Table) count(which func(*owned) bool) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.locks {
		if which(o) {
			n++
		}
	}
	return n
}

// Lost is an error that names each lock that was lost, or given up at somebody's
// request, since it was asked last.
func (t *Table) Lost() error {
	all := t.all()
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	t.gone = slices.DeleteFunc(t.gone, func(d *departure) bool {
		if d.err != nil {
			errs = append(errs, fmt.Errorf("%w%s", d.err, t.fence.goesOn(d.nodes...)))
		}
		return d.err != nil
	})
	for _, o := range all {
		if o.reportLoss() {
			err := lossOf(o.path, o.status)
			if o.status.State == zklock.Lost {
				err = fmt.Errorf("%w%s", err, t.fence.goesOn(nodesOf(o.key.path, o.leases...)...))
			}
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return lockLost(errors.Join(errs...))
}

// Release gives everything back, newest first, and names what was held. What
// cannot be released goes with the session.
func (t *Table) Release(ctx context.Context) (held []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	defer time.AfterFunc(releaseTimeout/2, t.leave).Stop() // the rest is for what it has to tell
	t.mu.Lock()
	t.ending = true
	t.mu.Unlock()
	for _, o := range t.all() {
		var a *attempt
		o.with(func() {
			if a = o.attempt; a != nil && !o.deserted() { // else it ends by itself, and has to tell that
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
	t.working.Wait() // what is waited for has been given up, and a release ends with staying
	var errs []error
	for _, o := range t.all() {
		var told, refused bool
		o.with(func() { told, refused = o.gone() || o.reported, o.rejected })
		if !told {
			held = append(held, o.path)
		}
		o.releaseAll(ctx, func(e end, err error) {
			if !(told && e == lost) && !(refused && e == rejected) {
				errs = append(errs, err)
			}
		})
		if err := o.drain(ctx); err != nil && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("%s: %w", o.path, zklock.ErrUnconfirmed))
		}
	}
	return held, errors.Join(append(errs, t.crier.finish(ctx))...)
}

var errLeaving = errors.New("the shell is exiting")

// InQueue reports whether a znode's name is that of a place in a lock's queue, which must
// not outlive the session that has asked for it.
func InQueue(name string) bool {
	n, ok := zklock.ParseName(name)
	return ok && n.Number != zklock.NoNumber
}
