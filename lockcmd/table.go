// Package lockcmd has the lock commands: lock, rlock, wlock, unlock, locks and
// revoke, and the table of what a shell holds. The recipe is in package zklock.
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
	"github.com/zksh/zksh/lockcmd/zklock"
)

// Table is what one shell holds and waits for. Its methods may be called from
// any goroutine; commands run one at a time.
type Table struct {
	crier crier

	mu      sync.Mutex
	locks   map[key]*owned
	seq     int     // counts what was taken, for the order of release
	gone    []error // locks that went without unlock, and without a loss, since Lost was asked
	ending  bool    // Release was called: nothing new is begun
	working sync.WaitGroup
}

// key is a path in one ensemble.
type key struct {
	at   zkconn.Stay
	path string // on the server
}

// New makes an empty table.
func New() *Table { return &Table{locks: map[key]*owned{}} }

// Commands are the lock commands, which act on this table.
func (t *Table) Commands() []*commands.Command {
	return []*commands.Command{t.lockCommand(lockKinds[0]), t.lockCommand(lockKinds[1]), t.lockCommand(lockKinds[2]),
		t.unlockCommand(), t.locksCommand(), t.revokeCommand()}
}

// owned is one path this shell has to do with.
type owned struct {
	table  *Table
	key    key
	path   string // as it was typed
	kind   kind   // of the first request
	family zklock.Family
	lock   *zklock.Lock
	env    *commands.Env

	// Guarded by the table's lock.
	revocable bool
	leases    []taken // newest last
	status    zklock.Status
	reported  bool        // the loss was an error already
	wait      *background // nil unless it is waited for in the background
	end       func()      // ends the command that runs under the lock; nil without one
}

// taken is one lease with its place in the order of taking.
type taken struct {
	*zklock.Lease
	seq  int
	kind kind
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
		if o.key.at.Closed() {
			o.leave()
		}
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

// current is the latest state.
func (o *owned) current() zklock.Status {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	return o.status
}

// held lists the leases, newest last.
func (o *owned) held() []taken {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	return slices.Clone(o.leases)
}

// add keeps a new lease.
func (o *owned) add(lease *zklock.Lease, k kind) {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	o.table.seq++
	o.leases = append(o.leases, taken{lease, o.table.seq, k})
}

// forget takes a lease out, and the path when nothing is left of it.
func (o *owned) forget(lease *zklock.Lease) (left int) {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	o.leases = slices.DeleteFunc(o.leases, func(l taken) bool { return l.Lease == lease })
	o.dropIfEmpty()
	return len(o.leases)
}

// dropIfEmpty is called with the table's lock held.
func (o *owned) dropIfEmpty() {
	if len(o.leases) == 0 && o.wait == nil && o.table.locks[o.key] == o {
		delete(o.table.locks, o.key)
	}
}

// leave forgets the leases of a session that the person has ended, and says so,
// once. Called with the table's lock held.
func (o *owned) leave() {
	if len(o.leases) > 0 {
		o.leases = nil
		o.say("lock " + o.path + ": released, with its session")
	}
	o.dropIfEmpty()
}

// work runs f in the background; Release waits for it.
func (t *Table) work(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ending {
		t.working.Go(f)
	}
}

// lost tells whether a lock is gone, or may be.
func lost(s zklock.State) bool { return s == zklock.Lost || s == zklock.PresumedLost }

// Held counts the locks that are held.
func (t *Table) Held() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, o := range t.locks {
		if len(o.leases) > 0 && !lost(o.status.State) && !o.key.at.Closed() {
			n++
		}
	}
	return n
}

// Guarding tells whether a command runs under a lock.
func (t *Table) Guarding() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range t.locks {
		if o.end != nil {
			return true
		}
	}
	return false
}

// Lost is an error that names each lock that was lost, or given up at somebody's
// request, since it was asked last.
func (t *Table) Lost() error {
	all := t.all()
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := t.gone
	t.gone = nil
	for _, o := range all {
		if len(o.leases) > 0 && lost(o.status.State) && !o.reported {
			o.reported = true
			errs = append(errs, lossError(o.path, o.status))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &commands.FinalError{Err: &commands.StatusError{Status: commands.StatusLockLost, Err: errors.Join(errs...)}}
}

func lossError(path string, s zklock.Status) error {
	if s.State == zklock.PresumedLost {
		return fmt.Errorf("the lock on %s may be lost: no server was heard of for as long as a session lasts", path)
	}
	return fmt.Errorf("the lock on %s is lost: %w", path, s.Err)
}

// Release gives everything back, newest first, and names what was held. What
// cannot be released goes with the session.
func (t *Table) Release(ctx context.Context) (held []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	t.mu.Lock()
	t.ending = true
	t.mu.Unlock()
	for _, o := range t.all() {
		o.stopWaiting(errLeaving)
	}
	t.working.Wait() // what is waited for has been stopped, and a release is bounded
	var errs []error
	all := t.all()
	for _, o := range all {
		if !lost(o.current().State) {
			held = append(held, o.path)
		}
		var err error
		for _, l := range slices.Backward(o.held()) {
			if e := l.Unlock(ctx); e != nil && !settled(e) {
				err = e
			}
		}
		if o.lock.Drain(ctx) != nil || errors.Is(err, zklock.ErrUnconfirmed) {
			err = o.unconfirmed()
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return held, errors.Join(append(errs, t.crier.finish(ctx))...)
}

// unconfirmed is the error of a release that the server has not answered.
func (o *owned) unconfirmed() error {
	return fmt.Errorf("%s: no server has confirmed the release; at the latest the lock goes with the session, within %s",
		o.path, o.env.Session.Info().Timeout)
}

// settled tells an error of Unlock after which nothing is left to be done.
func settled(err error) bool {
	return errors.Is(err, zklock.ErrLost) || errors.Is(err, zklock.ErrNotHeld)
}

// releaseTimeout leaves time to end the session, too.
const releaseTimeout = 2 * time.Second

var errLeaving = errors.New("the shell ends")
