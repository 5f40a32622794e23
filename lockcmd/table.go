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
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// The exit statuses of the lock commands; the shell lists them with the others.
const (
	statusLost      = 74
	statusNotLocked = 75
)

// Table is what one shell holds and waits for. Its methods may be called from
// any goroutine; commands run one at a time.
type Table struct {
	mu      sync.Mutex
	locks   map[string]*owned // by server path
	seq     int               // counts what was taken, for the order of release
	waiting sync.WaitGroup    // background waits
}

// New makes an empty table.
func New() *Table { return &Table{locks: map[string]*owned{}} }

// Commands are the lock commands, which act on this table.
func (t *Table) Commands() []*commands.Command {
	return []*commands.Command{t.lockCommand(lockKinds[0]), t.lockCommand(lockKinds[1]), t.lockCommand(lockKinds[2]),
		t.unlockCommand(), t.locksCommand(), t.revokeCommand()}
}

// owned is one path this shell has to do with.
type owned struct {
	table  *Table
	server string // the path on the server, the key in the table
	path   string // as it was typed
	kind   kind   // of the first request
	family zklock.Family
	lock   *zklock.Lock
	env    *commands.Env
	cancel context.CancelCauseFunc // of a background wait; nil without one
	placed chan struct{}           // closed once that wait has a place in the queue; nil without one

	revocable bool

	// Guarded by the table's lock.
	leases   []taken // newest last
	status   zklock.Status
	reported bool // the loss was an error already
}

// taken is one lease with its place in the order of taking.
type taken struct {
	*zklock.Lease
	seq  int
	kind kind
}

func (t *Table) get(key string) *owned {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.locks[key]
}

// current is the latest state.
func (o *owned) current() zklock.Status {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	return o.status
}

// add keeps a new lease.
func (o *owned) add(lease *zklock.Lease, k kind) {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	o.table.seq++
	o.leases = append(o.leases, taken{lease, o.table.seq, k})
	o.cancel = nil
}

// forget takes a lease out, and the path with its last one.
func (t *Table) forget(key string, lease *zklock.Lease) (left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.locks[key]
	if o == nil {
		return 0
	}
	o.leases = slices.DeleteFunc(o.leases, func(l taken) bool { return l.Lease == lease })
	if len(o.leases) == 0 && o.cancel == nil {
		delete(t.locks, key)
	}
	return len(o.leases)
}

// lost tells whether a lock is gone, or may be.
func lost(s zklock.State) bool { return s == zklock.Lost || s == zklock.PresumedLost }

// Held counts the locks that are held.
func (t *Table) Held() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, o := range t.locks {
		if len(o.leases) > 0 && !lost(o.status.State) {
			n++
		}
	}
	return n
}

// Lost is an error that names each lock that was lost since it was asked last.
func (t *Table) Lost() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(t.locks)) {
		o := t.locks[key]
		if len(o.leases) > 0 && lost(o.status.State) && !o.reported {
			o.reported = true
			errs = append(errs, lossError(o.path, o.status))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &commands.FinalError{Err: &commands.StatusError{Status: statusLost, Err: errors.Join(errs...)}}
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
	for _, o := range t.all() {
		o.stopWaiting(errLeaving)
	}
	t.waiting.Wait()
	all := t.all()
	var errs []error
	for _, o := range all {
		held = append(held, o.path)
		for _, l := range slices.Backward(o.leases) {
			if err := l.Unlock(ctx); err != nil && !errors.Is(err, zklock.ErrLost) {
				errs = append(errs, fmt.Errorf("%s: %w", o.path, err))
			}
		}
	}
	for _, o := range all {
		if err := o.lock.Drain(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: not yet released: %w", o.path, err))
		}
	}
	return held, errors.Join(errs...)
}

// all lists the paths, the one taken last first.
func (t *Table) all() []*owned {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.SortedFunc(maps.Values(t.locks), func(a, b *owned) int { return cmp.Compare(b.newest(), a.newest()) })
}

// releaseTimeout leaves time to end the session, too.
const releaseTimeout = 2 * time.Second

var errLeaving = errors.New("the shell ends")

// newest is the place of the latest lease. Called with the table's lock held.
func (o *owned) newest() int {
	if len(o.leases) == 0 {
		return 0
	}
	return o.leases[len(o.leases)-1].seq
}

// stopWaiting ends a background wait, if that is all there is.
func (o *owned) stopWaiting(why error) bool {
	o.table.mu.Lock()
	cancel := o.cancel
	o.table.mu.Unlock()
	if cancel == nil {
		return false
	}
	cancel(why)
	return true
}

// told is the lock's Notify: it keeps the state and tells the person.
func (o *owned) told(s zklock.Status) {
	o.table.mu.Lock()
	before := o.status.State
	o.status = s
	if s.State == zklock.Held {
		o.reported = false
	}
	if s.State == zklock.Queued && o.placed != nil {
		close(o.placed)
		o.placed = nil
	}
	o.table.mu.Unlock()
	if text := o.news(before, s); text != "" {
		o.env.Alert(text)
	}
	if s.Revoke != nil && o.revocable {
		o.table.waiting.Go(o.letGo) // Notify must not call the lock
	}
}

// news is what a person must hear of a change, or empty.
func (o *owned) news(before zklock.State, s zklock.Status) string {
	switch {
	case s.State == zklock.Requeued:
		return fmt.Sprintf("lock %s: lost its place in the queue (%s); it queues up again", o.path, s.Err)
	case s.State == zklock.Suspended:
		return fmt.Sprintf("lock %s: no connection; it is safe for another %s", o.path, seconds(time.Until(s.Until)))
	case s.State == zklock.PresumedLost:
		return "lock " + o.path + ": presumed lost: no server was heard of for as long as the session lasts, so others may hold it"
	case s.State == zklock.Lost:
		return fmt.Sprintf("lock %s is lost: %s", o.path, s.Err)
	case s.State == zklock.Releasing && s.Err != nil:
		return fmt.Sprintf("lock %s: %s", o.path, s.Err)
	case s.State == zklock.Held && s.Revoke != nil:
		return fmt.Sprintf("lock %s: %s", o.path, o.request(s.Revoke))
	case s.State == zklock.Held && s.Again:
		return "lock " + o.path + ": it was kept after all: the server still has the session"
	case s.State == zklock.Held && before == zklock.Suspended:
		return "lock " + o.path + ": connected again and still held"
	}
	return ""
}

func (o *owned) request(data []byte) string {
	who := "somebody"
	if r, ok := readRevocation(data); ok {
		who = r.By.String()
	}
	if o.revocable {
		return who + " asks to let go; it is released"
	}
	return who + " asks to let go; unlock " + o.path + " does"
}

// letGo releases all of a lock that somebody asked for.
func (o *owned) letGo() {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	o.table.mu.Lock()
	leases := slices.Clone(o.leases)
	o.table.mu.Unlock()
	for _, l := range slices.Backward(leases) {
		err := l.Unlock(ctx)
		if err != nil && !errors.Is(err, zklock.ErrNotHeld) {
			o.env.Alert(fmt.Sprintf("lock %s: %s", o.path, err))
			return
		}
		o.table.forget(o.server, l.Lease)
	}
}

// seconds shows a duration as people read it.
func seconds(d time.Duration) string {
	return strings.TrimSuffix(max(d, 0).Round(100*time.Millisecond).String(), ".0s")
}
