package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// How long the server's word on a release is waited for, if not for as long as a
// session lasts. The removal goes on in the background after that, as long as the
// session lasts.
const (
	longestRelease  = 2 * time.Minute       // whatever session timeout the server has granted
	releaseTimeout  = 2 * time.Second       // when the shell ends, or somebody wants to go on; it leaves time to end the session, too
	withdrawTimeout = 50 * time.Millisecond // when a place in the queue was given up
)

// next claims a lease to be given back; nil if there is none.
func (o *owned) next(exclusiveFirst bool) *taken {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	return o.claim(exclusiveFirst)
}

// giveBack gives back a lease that was claimed for that, once, and returns how
// many are left. The error is ErrLost if the lock did not last until then, and
// ErrUnconfirmed if that is not known; after any other it is still held.
func (o *owned) giveBack(ctx context.Context, l *taken) (left int, err error) {
	err = l.Unlock(ctx)
	o.with(func() { left = o.answered(l, err) })
	switch {
	case errors.Is(err, zklock.ErrLost):
		return left, lockLost(fmt.Errorf("%s: %w", o.path, err))
	case errors.Is(err, zklock.ErrUnconfirmed):
		return left, fmt.Errorf("%s: %w; if the lock was not released, the servers remove it when its session expires, %s after they last received something from the session "+
			"(a restart or an election starts this period again)", o.path, err, l.Timeout())
	case err != nil:
		return left, o.stuck(err)
	}
	return left, nil
}

// giveBackInTime is giveBack through elections and restarts, for as long as a
// session lasts. The end of ctx ends that.
func (o *owned) giveBackInTime(ctx context.Context, l *taken) (left int, err error) {
	limit := min(l.Timeout(), longestRelease)
	late := time.AfterFunc(releaseTimeout, func() {
		o.say(fmt.Sprintf("lock %s: the servers have not confirmed the release yet; zksh keeps trying for up to %s", o.path, limit))
	})
	defer late.Stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return o.giveBack(ctx, l)
}

// giveBackAfter is giveBackInTime for the lease of a command that has ended, or was
// not started. If ctx has ended before, as the person or the system ended that, there
// is less time.
func (o *owned) giveBackAfter(ctx context.Context, l *taken) (err error) {
	if ctx.Err() == nil {
		_, err = o.giveBackInTime(ctx, l)
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	_, err = o.giveBack(ctx, l)
	return err
}

// stuck is the error of a release that is refused. A shell that ends is its own way out.
func (o *owned) stuck(err error) error {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	o.stuckTold = true
	if o.table.ending || o.env.Mode == commands.OneShot {
		return fmt.Errorf("cannot release %s: %w; zksh is ending the session, which releases the lock", o.path, err)
	}
	return fmt.Errorf("cannot release %s: %w; to end the session, and the lock with it, run: close", o.path, err)
}

// releaseAll gives back all of a lock that somebody asked for. The end of the shell
// leaves it less time.
func (o *owned) releaseAll() {
	gone := o.releasedForAnother()
	d := o.depart()
	for l := o.next(false); l != nil; l = o.next(false) {
		_, err := o.giveBackInTime(o.table.staying, l)
		switch {
		case errors.Is(err, zklock.ErrLost):
			gone = err
		case err != nil:
			o.say("lock " + err.Error())
		}
		if stuck(err) {
			gone = nil
			break
		}
	}
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	if d.err = gone; gone == nil {
		o.table.gone = slices.DeleteFunc(o.table.gone, func(other *departure) bool { return other == d })
	}
}

// depart takes note that a lock begins to go. A person is told of that at once; lines of
// a batch that are on their way rely on it.
func (o *owned) depart() *departure {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	d := &departure{at: o.key.at}
	if o.env.Mode == commands.Batch {
		d.nodes = o.nodes()
	}
	o.table.gone = append(o.table.gone, d)
	return d
}

func (o *owned) releasedForAnother() error {
	return wanted.on(o.path)
}
