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
	at    zkconn.Stay
	nodes []string // that stay a fence until then
	err   error    // what is to be told; nil as long as it is not known
}

// key is a path in one ensemble.
type key struct {
	at   zkconn.Stay
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

// owned does what the life of one lock decides. Whatever happens to the lock goes
// through with, which does what has to follow.
type owned struct {
	table  *Table
	key    key
	kind   kind // of the first request
	family zklock.Family
	take   func(ctx context.Context, mode zklock.Mode, try bool) (lease, error)
	drain  func(ctx context.Context) error // waits until nothing of given up attempts and releases is left
	env    *commands.Env

	deserted func() bool // the person has left the ensemble by close or connect
	life                 // guarded by the table's lock
}

// with lets something happen to a lock, and begins what follows from it.
func (o *owned) with(event func()) {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	event()
	if o.letGo() {
		o.table.work(o.releaseAll)
	}
	o.drop()
}

// drop forgets a path of which nothing is left. Called with the table's lock held.
func (o *owned) drop() {
	if o.over() && o.table.locks[o.key] == o {
		delete(o.table.locks, o.key)
	}
}

// find is the entry of a path in the present ensemble, or nil.
func (t *Table) find(env *commands.Env, path string) *owned {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.locks[key{env.Session.Stay(), env.Session.ServerPath(path)}]
}

// all lists the paths, the one taken last first. What the person has left by
// close or connect is not among them.
func (t *Table) all() []*owned {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.locks {
		if o.deserted() {
			o.leave()
			o.drop()
		}
	}
	if len(t.locks) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(t.locks), func(a, b *owned) int { return cmp.Compare(b.newest(), a.newest()) })
}

// newest is the place of the latest lease. Called with the table's lock held.
func (o *owned) newest() int {
	if len(o.leases) == 0 {
		return 0
	}
	return o.leases[len(o.leases)-1].seq
}

// toldLost tells whether it was said that the lock is lost.
func (o *owned) toldLost() bool {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	return lost(o.status.State) || o.reported
}

// current is the latest state.
func (o *owned) current() zklock.Status {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	return o.status
}

// leave forgets the leases of a session that the person has ended, and says so,
// once. Called with the table's lock held.
func (o *owned) leave() {
	if len(o.leases) > 0 {
		o.leases = nil
		if !o.table.ending { // the end of the shell has told what became of it
			o.say("lock " + o.path + ": released, because its session was closed")
		}
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
	gone = t.count(func(o *owned) bool { return has(o) && lost(o.status.State) })
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

// Guarding tells whether a command runs under a lock.
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
		if len(o.leases) > 0 && lost(o.status.State) && !o.reported {
			o.reported = true
			err := fmt.Errorf("lock %s is lost: %w", o.path, o.status.Err)
			if o.status.State == zklock.Lost {
				err = fmt.Errorf("%w%s", err, t.fence.goesOn(o.nodes()...))
			}
			if o.status.State == zklock.PresumedLost && o.status.Err != nil {
				err = fmt.Errorf("lock %s may be lost: %w", o.path, o.status.Err)
			} else if o.status.State == zklock.PresumedLost {
				err = fmt.Errorf("lock %s may be lost: the servers have not confirmed it for a whole session timeout", o.path)
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
		o.endAttempt(ctx)
	}
	t.working.Wait() // what is waited for has been given up, and a release ends with staying
	var errs []error
	for _, o := range t.all() {
		told, refused := o.toldLost(), o.stuckTold
		if !told {
			held = append(held, o.path)
		}
		for l := o.next(false); l != nil; l = o.next(false) {
			_, err := o.giveBack(ctx, l)
			if err != nil && !(told && errors.Is(err, zklock.ErrLost)) && !(refused && stuck(err)) {
				errs = append(errs, err)
			}
			if stuck(err) {
				break
			}
		}
		if err := o.drain(ctx); err != nil && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("%s: %w", o.path, zklock.ErrUnconfirmed))
		}
	}
	return held, errors.Join(append(errs, t.crier.finish(ctx))...)
}

// endAttempt ends what is waited for, and waits until it has ended, or ctx has. A wait
// whose session the person has left ends by itself, and has to tell that.
func (o *owned) endAttempt(ctx context.Context) {
	o.table.mu.Lock()
	a := o.attempt
	o.table.mu.Unlock()
	if a == nil {
		return
	}
	if !o.deserted() {
		a.cancel(errLeaving)
	}
	select {
	case <-a.done:
	case <-ctx.Done():
		a.cancel(errLeaving)
	}
}

var errLeaving = errors.New("the shell is exiting")

// InQueue tells whether a znode's name is that of a place in a lock's queue, which must
// not outlive the session that has asked for it.
func InQueue(name string) bool {
	n, ok := zklock.ParseName(name)
	return ok && n.Number != zklock.NoNumber
}
