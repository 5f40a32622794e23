package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// errTimeUp is the cause of a context that ends because the time limit of -w has passed.
var errTimeUp = errors.New("timed out")

// acquireError returns the error to report after the attempt a to acquire a lock failed with err.
// ctx is the context of the request. ahead is the contender that the attempt waited for, or nil if
// it is unknown.
func acquireError(ctx context.Context, env *commands.Env, path string, ahead *zklock.Ahead, a *attempt, f *lockFlags, err error) error {
	switch {
	case errors.Is(err, zklock.ErrBusy):
		if who := describeHolder(env, path, ""); who != "" {
			err = fmt.Errorf("%w: %s", err, who)
		}
		return busyError(path, f, err)
	case errors.As(err, new(*zkconn.Error)): // the error of the server is more precise than a timeout
	case context.Cause(ctx) == errTimeUp:
		return timeoutError(env, path, ahead, f)
	case a.ctx.Err() != nil && !f.try:
		return &commands.FinalError{Err: canceledError(path, a)}
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	if zkconn.PathOf(err) == "" {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return &commands.FinalError{Err: err}
}

// canceledError returns the error for the canceled attempt a to acquire the lock on path.
func canceledError(path string, a *attempt) error {
	return fmt.Errorf("%s: no longer waiting for the lock: %w", path, context.Cause(a.ctx))
}

// timeoutError returns the error for a wait that took too long. The error names the contender
// that blocks the lock. If that contender is unknown, the error says that the servers did not
// answer or that there was no connection.
func timeoutError(env *commands.Env, path string, ahead *zklock.Ahead, f *lockFlags) error {
	connected := env.Session.Info().Addr != ""
	who := ""
	if ahead != nil || connected {
		who = describeBlocker(env, path, ahead, connected)
	}
	why := "the servers did not answer"
	switch {
	case connected && who != "":
		return busyError(path, f, fmt.Errorf("%w after %s: %s", errTimeUp, seconds(f.limit.Value), who))
	case !connected && who != "":
		why = "no connection; before that, " + who
	case !connected:
		why = "no connection"
	}
	return &commands.FinalError{Err: &commands.StatusError{Status: commands.StatusNoServer,
		Err: fmt.Errorf("%s: %w after %s: %s", path, errTimeUp, seconds(f.limit.Value), why)}}
}

// busyError returns the error for an attempt that failed because another client holds the lock.
func busyError(path string, f *lockFlags, err error) error {
	err = fmt.Errorf("%s: %w", path, err)
	return &commands.FinalError{Err: &commands.StatusError{Status: f.status, Err: err, Code: "NotLocked"}}
}

// describeBlocker describes the contender ahead in the queue. If ahead does not hold the lock,
// describeBlocker also names the holder. If ahead is nil, it names only the holder. It omits a
// holder that zksh cannot find quickly.
func describeBlocker(env *commands.Env, dir string, ahead *zklock.Ahead, connected bool) string {
	if ahead == nil {
		if who := describeHolder(env, dir, ""); who != "" {
			return heldBy(who)
		}
		return ""
	}
	text := "waiting behind " + queue.Describe(ahead.Data, ahead.Since, ahead.Node)
	if connected {
		if who := describeHolder(env, dir, path.Base(ahead.Node)); who != "" {
			text += "; the lock is " + heldBy(who)
		}
	}
	return text
}

// heldBy returns a clause that names the holder of a lock. who is the result of describeHolder.
func heldBy(who string) string { return "held by " + strings.TrimPrefix(who, "owned by ") }

// describeHolder describes the first contender in the queue at dir that belongs to another
// session. It returns an empty string if zksh cannot find out within a second.
//
// ahead is the name of the znode ahead in the queue, or empty. If ahead is not empty,
// describeHolder returns an empty string unless the first contender holds the lock and the
// contender ahead does not.
func describeHolder(env *commands.Env, dir, ahead string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	q, err := queue.ReadKnown(ctx, ensemble{env.Session}, dir)
	if err != nil {
		return ""
	}
	own := render.Hex(env.Session.Info().ID) // this shell's own znode may still be in the queue
	others := slices.DeleteFunc(q.Contenders, func(c *queue.Contender) bool { return c.Session == own })
	if len(others) == 0 {
		return ""
	}
	first := others[0]
	alike := func(c *queue.Contender) bool { return c.State == first.State && c.Node == ahead }
	if ahead != "" && (slices.ContainsFunc(q.Contenders, alike) || !slices.Contains(q.Holders(), first.Node)) {
		return ""
	}
	return render.Safe(cmp.Or(first.Who, "an unknown client")) + " (" + first.Node + ")"
}

// redrawPause is the time between two updates of the line that the terminal shows during a wait.
const redrawPause = 200 * time.Millisecond

// noConnectionDelay is how long the connection must be lost before zksh shows this to a user who
// waits for a lock. When a server rejects the client, it first closes the connection, and zksh
// learns the reason a little later. The delay gives zksh time to report that reason instead.
const noConnectionDelay = time.Second

// showWait shows a line on the terminal that says which lock zksh waits for, and updates it
// until end is called. status returns the current status of the lock. Without a terminal, it prints one note instead. end waits only briefly
// for the last update, because a terminal that accepts no output must not delay the use of the
// lock.
func showWait(env *commands.Env, path string, status func() zklock.Status) (end func()) {
	start := time.Now()
	done, drawn := make(chan struct{}), make(chan struct{})
	go func() { // returns after end is called and the terminal has accepted the line
		defer close(drawn)
		tick := time.NewTicker(redrawPause)
		defer tick.Stop()
		live := env.Screen.Region(commands.Remarks)
		defer live.Close(false)
		columns, _ := live.Size()
		noted := false
		var lost time.Time // when the connection was lost; zero while connected
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			switch connecting := env.Session.State() == zkconn.StateConnecting; {
			case !connecting:
				lost = time.Time{}
			case lost.IsZero():
				lost = time.Now()
			}
			text := waitLine(path, status(), time.Since(start), !lost.IsZero() && time.Since(lost) >= noConnectionDelay)
			switch {
			case text == "" || noted:
			case columns > 0:
				_ = live.Draw(text) // if standard error is closed, the error cannot be shown anyway
			default:
				env.Screen.Note(text)
				noted = true
			}
		}
	}()
	return func() {
		close(done)
		select {
		case <-drawn:
		case <-time.After(redrawPause):
		}
	}
}

// waitInBackground starts a wait for the lock in the background. It returns as soon as the
// attempt has a place in the queue. If the lock is acquired at once, it prints the same answer
// as a wait in the foreground.
func waitInBackground(ctx context.Context, o *shellLock, a *attempt, f *lockFlags) error {
	placed, ended := a.gotPlace, ctx.Done()
	var l *heldLease
	var err error
	got := make(chan struct{})
	returned := make(chan struct{}) // closed when waitInBackground has returned
	defer close(returned)
	wait := func() { // ends when the lock is acquired, or when unlock or the end of the shell cancels the attempt
		l, err = o.acquire(a, f)
		select {
		case got <- struct{}{}:
		case <-returned:
			o.announce(a, f, l, err)
		}
	}
	begun := false
	if o.apply(func() { begun = o.table.runInBackground(wait) }); !begun {
		o.apply(o.attemptFailed)
		a.cancel(errLeaving)
		close(a.done)
		return errLeaving
	}
	for {
		select {
		case <-got:
			if err != nil {
				return err
			}
			return o.env.Screen.Print(l.answer(o.path))
		case <-placed:
			st := o.currentStatus()
			return o.env.Screen.Print(queuedLine(o.path, a.kind.label, st.Node, st.Place))
		case <-ended:
			// From now on, wait only for got. The attempt may still succeed if the lock was
			// granted before the cancellation.
			placed, ended = nil, nil
			o.apply(func() { o.cancelAttempt(context.Cause(ctx)) })
		}
	}
}

// announce notifies the user of the result of a background wait. If the wait failed, announce also
// makes Table.Lost return the error, because a script may rely on the lock. If the user has ended the
// wait, with unlock, close or connect, the script does not rely on it.
func (o *shellLock) announce(a *attempt, f *lockFlags, l *heldLease, err error) {
	if err == nil {
		columns, _ := o.env.Screen.Region(commands.Remarks).Size()
		o.notify(l.answer(o.path).fitted(columns))
		return
	}
	failure := fmt.Errorf("%s -b: %w", a.kind.command, err)
	switch context.Cause(a.ctx) {
	case errWithdrawn: // unlock reports the failure of a release, too
		return
	case errLeaving:
		if o.env.Mode == commands.Batch {
			o.fail(fmt.Errorf("%s -b: %w", a.kind.command, errors.Join(endOfScript(o.path, f), a.releaseErr)))
		} else if a.releaseErr != nil {
			o.notify(failure.Error())
		}
		return
	}
	o.notify(failure.Error())
	if !o.closed() {
		o.fail(failure)
	}
}

// fail makes Table.Lost return err, the error of a wait for this lock.
func (o *shellLock) fail(err error) {
	o.table.mu.Lock()
	defer o.table.mu.Unlock()
	o.table.ended = append(o.table.ended, &endedLock{stay: o.key.stay, err: err})
}

// endOfScript returns the error for a background wait that the end of the script has canceled.
func endOfScript(path string, f *lockFlags) error {
	return busyError(path, f, errors.New("the script ended before the lock was acquired; to wait for it, omit -b"))
}

// errWithdrawn is the cause with which unlock cancels an attempt to acquire a lock.
var errWithdrawn = errors.New("canceled by unlock")

// waitLine returns the line that the terminal shows while zksh waits for a lock: the place in
// the queue, the contender ahead and the time waited so far. If disconnected is true, the line
// says that there is no connection. If the place is unknown, waitLine returns an empty string.
func waitLine(path string, s zklock.Status, waited time.Duration, disconnected bool) string {
	line := fmt.Sprintf("waiting for %s, %s: ", path, waited.Round(time.Second))
	switch {
	case disconnected:
		return line + "no connection"
	case s.State != zklock.Queued || s.Ahead == nil:
		return ""
	}
	return line + fmt.Sprintf("place %d in the queue, behind %s", s.Place, queue.Describe(s.Ahead.Data, s.Ahead.Since, s.Ahead.Node))
}
