// # Semaphores
//
// A [Semaphore] follows the protocol of Curator's InterProcessSemaphoreV2. A contender acquires a
// mutex at PATH/locks and creates a znode below PATH/leases. When a list contains this znode and
// has at most n znodes, the contender holds a lease, and releases the mutex. Until then it waits
// for the next change of the list, and keeps the mutex. Waiters therefore queue at the mutex in
// the order of arrival, and only the first of them has a znode among the leases. All znodes in the
// list count, also those of clients that do not follow the protocol.
//
// There are never more than n holders. Assume n + 1 holders at one moment. Consider the one among
// them whose znode was created last. Its list contains its own znode, so it was made after the
// znodes of the others had been created. They still exist, so the list contained at least n + 1
// znodes, and the contender was not granted a lease. This argument does not rely on the mutex.
// The rule of the lease applies to a holder's znode below PATH/leases, as to the znode of a lock.
//
// The mutex makes sure that two contenders with a znode among the leases do not wait for each
// other. A contender that loses the mutex deletes its znode and starts again.
//
// Limits:
//
//   - All participants must use the same n. If their numbers differ, up to the largest of them
//     can hold a lease.
//   - TryAcquire waits while another contender has the mutex and a lease is free, because this
//     contender may or may not take the lease.
//   - A semaphore and a lock on the same path do not exclude each other.
package zklock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// A Semaphore is a limited number of leases on a path. It uses the same znodes as Curator's
// InterProcessSemaphoreV2, and shares its leases with it. ZooKeeper does not know the number of
// leases: all participants must use the same one.
//
// Like a Lock, a Semaphore belongs to one owner. The owner holds one of the leases, and can
// acquire it several times. Goroutines that need a lease each need a Semaphore each.
//
// The methods may be called from any goroutine.
type Semaphore struct {
	path   string
	n      int
	leases *Lock  // lock whose znodes are the leases
	mutex  *Lock  // orders the contenders; the first one keeps it until it has a lease
	kept   *Lease // lease of mutex, if the server has rejected its release; guarded by leases.turn

	mu        sync.Mutex
	mutexLost context.CancelCauseFunc // ends the attempt that relies on the mutex; nil if there is none
}

// NewSemaphore returns the semaphore with n leases on a path. It sends nothing to the server. The
// znodes of waiters and of leases have the data of opt. NewSemaphore ignores opt.Family.
func NewSemaphore(conn Conn, path string, n int, opt Options) *Semaphore {
	s := &Semaphore{path: path, n: n}
	opt.Family = leaseFamily
	s.leases = New(conn, s.child("leases"), opt)
	s.leases.semaphore = s
	opt.Family, opt.Notify = Mutex, s.onMutexStatus
	s.mutex = New(conn, s.child("locks"), opt)
	return s
}

func (s *Semaphore) child(name string) string { return path.Join(s.path, name) }

// Acquire acquires a lease. It waits until ctx ends, across lost connections and sessions. If
// Acquire fails, no lease is held.
func (s *Semaphore) Acquire(ctx context.Context) (*Lease, error) { return s.acquire(ctx, true) }

// TryAcquire acquires a lease if one is free, and returns ErrBusy otherwise.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Lease, error) { return s.acquire(ctx, false) }

// Do acquires a lease, calls f while it lasts, and releases it, as [Lock.Do] does with a lock.
func (s *Semaphore) Do(ctx context.Context, f func(ctx context.Context, token int64) error) error {
	return withLease(ctx, s.Acquire, f)
}

// Drain is like [Lock.Drain].
func (s *Semaphore) Drain(ctx context.Context) error {
	return errors.Join(s.leases.Drain(ctx), s.mutex.Drain(ctx))
}

func (s *Semaphore) acquire(ctx context.Context, wait bool) (*Lease, error) {
	return s.leases.acquire(ctx, Counted, wait)
}

// allTaken is the ErrBusy of a semaphore with this number of leases.
type allTaken int

func (n allTaken) Error() string {
	if n == 1 {
		return "another client holds the only lease"
	}
	return fmt.Sprintf("other clients hold all %d leases", int(n))
}

func (n allTaken) Is(target error) bool { return target == ErrBusy }

// errMutexLost ends an attempt: the next contender may already have the mutex, and the two of
// them would wait for each other.
var errMutexLost = fmt.Errorf("the semaphore's mutex was lost: %w", errPlaceLost)

// attempt makes one attempt to acquire a lease. The entry is nil if it never existed. If attempt
// fails, it deletes all znodes, in the background if they cannot be deleted at once.
func (s *Semaphore) attempt(ctx context.Context, wait bool) (*entry, error) {
	if s.n < 1 {
		return nil, fmt.Errorf("a semaphore must have at least one lease, not %d", s.n)
	}
	mutex, err := s.takeMutex(ctx, wait)
	if err != nil {
		return nil, err
	}
	session, err := s.leases.conn.Session(ctx)
	if err != nil {
		return nil, errors.Join(err, s.releaseMutex(ctx, mutex))
	}
	e := newEntry(s.leases, session, Counted)
	if err := e.withdrawAfter(ctx, s.join(ctx, e, mutex, wait)); err != nil {
		return e, errors.Join(err, s.releaseMutex(ctx, mutex))
	}
	if err = s.releaseMutex(ctx, mutex); err == nil {
		err = e.secure(ctx) // after the release, which may have taken long
	}
	return e, e.withdrawAfter(ctx, err)
}

// takeMutex acquires the mutex. If wait is false, it returns ErrBusy if all leases are taken.
func (s *Semaphore) takeMutex(ctx context.Context, wait bool) (*Lease, error) {
	if kept := s.kept; kept != nil {
		if s.kept = nil; !kept.h.isOver() {
			return kept, nil
		}
	}
	switch {
	case wait && s.leases.owner == "":
		return s.mutex.Lock(ctx)
	case wait:
		return s.lockMutexUnless(ctx, s.waitUntilOwned)
	}
	mutex, err := s.mutex.TryLock(ctx)
	if !errors.Is(err, ErrBusy) {
		return mutex, err
	}
	return s.lockMutexUnless(ctx, s.waitUntilTaken) // another contender has the mutex, perhaps only for a moment
}

// lockMutexUnless waits for the mutex, but only until wait returns. It then returns the error of
// wait.
func (s *Semaphore) lockMutexUnless(ctx context.Context, wait func(context.Context) error) (*Lease, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	var waiting sync.WaitGroup
	waiting.Go(func() { cancel(wait(ctx)) })
	mutex, err := s.mutex.Lock(ctx)
	cancel(nil)
	waiting.Wait()
	if why := context.Cause(ctx); err != nil && (errors.Is(why, ErrBusy) || errors.Is(why, errOwned)) {
		err = why
	}
	return mutex, err
}

// waitUntilTaken waits until all leases are taken, and returns ErrBusy then.
func (s *Semaphore) waitUntilTaken(ctx context.Context) error {
	for pause := firstPause; ; pause = nextPause(pause) {
		session, err := s.leases.conn.Session(ctx)
		if err != nil {
			return err
		}
		children, err := newEntry(s.leases, session, Counted).syncAndList(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.leases.permanentAmong(children) != "":
			return errOwned
		case len(children) >= s.n:
			return allTaken(s.n)
		case err != nil && !errors.Is(err, zk.ErrNoNode) && !ended(session):
			return err
		}
		backOff(ctx, nil, pause)
	}
}

// releaseMutex releases the mutex. It returns an error only if the server has rejected that.
func (s *Semaphore) releaseMutex(ctx context.Context, mutex *Lease) error {
	err := mutex.Unlock(ctx)
	if err == nil || errors.Is(err, ErrLost) || errors.Is(err, ErrUnconfirmed) {
		return nil
	}
	s.kept = mutex
	return err
}

// join creates the entry's znode and waits until it is a lease. It gives up if the mutex is lost.
func (s *Semaphore) join(ctx context.Context, e *entry, mutex *Lease, wait bool) error {
	underMutex, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.setMutexLost(cancel)
	defer s.setMutexLost(nil)
	if mutex.h.isOver() {
		return errMutexLost
	}
	children, err := e.createZnode(underMutex)
	if err == nil {
		err = e.waitForLease(underMutex, children, wait)
	}
	if err != nil && errors.Is(context.Cause(underMutex), errMutexLost) {
		return errMutexLost
	}
	return err
}

func (s *Semaphore) setMutexLost(cancel context.CancelCauseFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mutexLost = cancel
}

// onMutexStatus receives the status of the mutex. The owner of the semaphore gets to know its
// place in the queue, which begins behind the leases.
func (s *Semaphore) onMutexStatus(st Status) {
	st.Mode = Counted
	switch {
	case st.State == Queued:
		st.Place += s.n
		s.leases.notify(st)
	case st.State == Requeued || st.State == Releasing && st.Err != nil:
		s.leases.notify(st)
	case st.State == Lost:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.mutexLost != nil {
			s.mutexLost(errMutexLost)
		}
	}
}

// waitForLease waits until the entry's znode is a lease: until a list that contains it has at
// most as many znodes as the semaphore has leases. children is the first list. If wait is false,
// waitForLease returns ErrBusy instead of waiting.
func (e *entry) waitForLease(ctx context.Context, children []string, wait bool) error {
	wake := make(chan zk.EventType, 1)
	defer e.s.Unwatch(e.l.path, wake)
	for {
		if isLease, err := e.isLease(children); isLease || err != nil {
			return err
		}
		if !wait {
			return allTaken(e.l.semaphore.n)
		}
		e.createSent = time.Time{}
		if isLease, err := e.waitForRelease(ctx, wake); isLease || err != nil {
			return err
		}
		var err error
		if children, err = e.listLeases(ctx, nil); err != nil { // without a watch, which would remain on the server after the grant
			return err
		}
	}
}

// waitForRelease waits until the list of leases changes. If a first list shows that the entry's
// znode is a lease, waitForRelease returns true instead of waiting.
func (e *entry) waitForRelease(ctx context.Context, wake chan zk.EventType) (isLease bool, err error) {
	children, err := e.listLeases(ctx, wake)
	if err == nil {
		isLease, err = e.isLease(children)
	}
	if err == nil && !isLease {
		err = e.notifyHolder(ctx, children)
	}
	if isLease || err != nil {
		return isLease, err
	}
	select {
	case <-wake:
		return false, nil
	case <-e.s.Ended():
		return false, errSessionOver
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// listLeases lists the znodes below the entry's path. If wake is not nil, it leaves a watch.
func (e *entry) listLeases(ctx context.Context, wake chan<- zk.EventType) (children []string, err error) {
	err = retry(ctx, e.s, func() (err error) {
		children, err = e.s.Children(ctx, e.l.path, wake)
		return err
	})
	return children, placeLost(err)
}

// isLease reports whether the entry's znode, which was created before this list of the znodes
// below its path, is a lease.
func (e *entry) isLease(children []string) (bool, error) {
	if !slices.Contains(children, e.name) {
		return false, errPlaceLost
	}
	e.listed = true
	if e.l.permanentAmong(children) != "" {
		return false, errOwned
	}
	return len(children) <= e.l.semaphore.n && !e.ownerAhead(children), nil
}

// notifyHolder reports to the owner that it waits for the first of the leases. children is the
// list of all znodes below the path.
func (e *entry) notifyHolder(ctx context.Context, children []string) error {
	number := func(name string) int64 { n, _ := ParseName(name); return n.Number }
	others := slices.DeleteFunc(slices.Clone(children), func(name string) bool { return name == e.name })
	first := slices.MinFunc(others, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	holder, err := e.readAhead(ctx, e.l.child(first), nil)
	if errors.Is(err, errPlaceLost) { // it is gone, and the watch reports that
		return nil
	}
	if err == nil {
		e.notifyPlace(len(children), holder)
	}
	return err
}
