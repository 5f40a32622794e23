package lockcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// errTimeUp is the end of -w.
var errTimeUp = errors.New("the time is up")

// acquire asks the recipe, and keeps the lease.
func (o *owned) acquire(ctx context.Context, k kind, f *lockFlags) (*zklock.Lease, error) {
	limit, cause := f.wait.value, errTimeUp
	if f.try { // the answer is expected at once, but not from a server that is silent
		limit, cause = o.env.Session.Info().Timeout, fmt.Errorf("%w: no answer", zkconn.ConnectionLoss)
	}
	if f.try || f.wait.given {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, cause)
		defer cancel()
	}
	take := map[bool]map[zklock.Mode]func(context.Context) (*zklock.Lease, error){
		false: {zklock.Exclusive: o.lock.Lock, zklock.Shared: o.lock.RLock},
		true:  {zklock.Exclusive: o.lock.TryLock, zklock.Shared: o.lock.TryRLock},
	}
	lease, err := take[f.try][k.mode](ctx)
	switch {
	case err == nil:
		o.add(lease, k)
		return lease, nil
	case errors.Is(err, zklock.ErrBusy), context.Cause(ctx) == errTimeUp:
		return nil, o.busy(f, err)
	case ctx.Err() != nil && !f.try:
		err = fmt.Errorf("%w: %s is not waited for any more, and the place in the queue is given up", context.Cause(ctx), o.path)
	}
	return nil, &commands.FinalError{Err: err}
}

// busy says why a lock was not got, and who is in the way.
func (o *owned) busy(f *lockFlags, err error) error {
	if !errors.Is(err, zklock.ErrBusy) {
		err = errTimeUp
	}
	err = fmt.Errorf("%s: %w", o.path, err)
	if who := o.inTheWay(); who != "" {
		err = fmt.Errorf("%w: %s", err, who)
	}
	return &commands.FinalError{Err: &commands.StatusError{Status: f.status, Err: err}}
}

// inTheWay names the contender ahead, or, where there was no wait, the holder; it
// is empty if that cannot be told quickly.
func (o *owned) inTheWay() string {
	if ahead := o.current().Ahead; ahead != nil {
		return "behind " + queue.Describe(ahead.Data, ahead.Since, ahead.Node)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	q, err := queue.Read(ctx, ensemble{o.env.Session}, o.path)
	if err != nil || len(q.Contenders) == 0 {
		return ""
	}
	first := q.Contenders[0]
	return "held by " + render.Safe(cmp.Or(first.Who, "somebody")) + " (" + strings.Join(first.Nodes, ", ") + ")"
}

// waitHere gets a lock while the person waits, and shows what for.
func (o *owned) waitHere(ctx context.Context, k kind, f *lockFlags) (*zklock.Lease, error) {
	end := o.showWait()
	lease, err := o.acquire(ctx, k, f)
	end()
	if err != nil {
		drain, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
		defer cancel()
		if o.lock.Drain(drain) != nil {
			o.env.Screen.Note("the place in the queue of " + o.path + " is being given up in the background")
		}
		o.forget(nil)
	}
	return lease, err
}

// withdrawTimeout is how long a person waits for the word that nothing stayed behind.
const withdrawTimeout = 50 * time.Millisecond

// drawEvery is how often the line of a wait is drawn anew.
const drawEvery = 200 * time.Millisecond

// showWait keeps one line on the terminal that says what is waited for, until
// end is called. Elsewhere that is remarked once.
func (o *owned) showWait() (end func()) {
	start := time.Now()
	done := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() { // until end, which waits for it
		tick := time.NewTicker(drawEvery)
		defer tick.Stop()
		live := o.env.Screen.Region(commands.Remarks)
		defer live.Close(false)
		columns, _ := live.Size()
		said := false
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			text := o.waitLine(time.Since(start))
			switch {
			case text == "" || said:
			case columns > 0:
				_ = live.Draw(text) // standard error takes nothing: that must not keep the lock away
			default:
				o.env.Screen.Note(text)
				said = true
			}
		}
	})
	return func() {
		close(done)
		drawing.Wait()
	}
}

// background is a wait that goes on while the shell does something else.
type background struct {
	cancel context.CancelCauseFunc
	placed chan struct{} // closed once there is a place in the queue
	once   sync.Once
	done   chan struct{} // closed when the wait is over
}

func (b *background) place() { b.once.Do(func() { close(b.placed) }) }

// waitLater waits while the shell goes on, once there is a place in the queue. A
// lock that is got at once is answered at once.
func (o *owned) waitLater(ctx context.Context, k kind, f *lockFlags) error {
	later, cancel := context.WithCancelCause(context.Background())
	b := &background{cancel: cancel, placed: make(chan struct{}), done: make(chan struct{})}
	o.table.mu.Lock()
	o.wait = b
	o.table.mu.Unlock()
	type result struct {
		lease *zklock.Lease
		err   error
	}
	got := make(chan result)
	alone := make(chan struct{}) // closed when the command has returned
	defer close(alone)
	o.table.work(func() { // until it has the lock, or unlock or the end of the shell stops it
		defer close(b.done)
		defer cancel(nil)
		lease, err := o.acquire(later, k, f)
		o.table.mu.Lock()
		o.wait = nil
		o.dropIfEmpty()
		o.table.mu.Unlock()
		select {
		case got <- result{lease, err}:
		case <-alone:
			o.announce(later, lease, k, err)
		}
	})
	select {
	case r := <-got:
		if r.err != nil {
			return r.err
		}
		return o.env.Screen.Print(o.answer(r.lease, k))
	case <-b.placed:
		st := o.current()
		return o.env.Screen.Print(pending{o.path, k.label, st.Node, st.Place})
	case <-ctx.Done():
		cancel(context.Cause(ctx))
		return context.Cause(ctx)
	}
}

// announce tells how a wait in the background has ended, unless that was asked for.
func (o *owned) announce(ctx context.Context, lease *zklock.Lease, k kind, err error) {
	switch {
	case err == nil && ctx.Err() == nil:
		o.say(o.answer(lease, k).line())
	case ctx.Err() == nil:
		o.say("lock " + o.path + ": " + err.Error())
	}
}

// stopWaiting ends a background wait, if there is one, and returns it.
func (o *owned) stopWaiting(why error) *background {
	o.table.mu.Lock()
	b := o.wait
	o.table.mu.Unlock()
	if b != nil {
		b.cancel(why)
	}
	return b
}
