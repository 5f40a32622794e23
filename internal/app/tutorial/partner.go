package tutorial

import (
	"context"
	"time"

	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
	"github.com/zksh/zksh/lockcmd/zklock/ensemble"
)

// A partner is the second client in the tutorial, which the tutorial calls Ben. In the steps about
// locks, it contends for the same lock as the user.
type partner struct {
	client *ensemble.Client
	stop   context.CancelFunc
	queued chan struct{} // closed when Ben is in the queue
	ended  chan struct{} // closed when Ben no longer contends
}

// sandboxTimeout is the maximum time to wait for the sandbox while Ben, the second client of the
// tutorial, joins the lock's queue.
const sandboxTimeout = 10 * time.Second

// inviteBen starts the client Ben. It returns when this client is in the queue of the lock.
func (g *Guide) inviteBen(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sandboxTimeout)
	defer cancel()
	if err := g.dismissBen(ctx); err != nil { // an earlier attempt may have left a client Ben running
		return err
	}
	note, err := queue.Note("Ben deploys", nil, 0)
	if err != nil {
		return err
	}
	client, err := ensemble.Dial(ctx, g.addr, ensemble.Options{})
	if err != nil {
		return err
	}
	stay, stop := context.WithCancel(context.Background())
	b := &partner{client: client, stop: stop, queued: make(chan struct{}), ended: make(chan struct{})}
	queued := false
	lock := zklock.New(client, g.expand("{}/lock"), zklock.Options{Data: note, Notify: func(s zklock.Status) {
		if !queued && (s.State == zklock.Queued || s.State == zklock.Held) { // calls of Notify never overlap
			queued = true
			close(b.queued)
		}
	}})
	g.ben = b
	go func() { // returns when leave is called, which waits for that
		defer close(b.ended)
		_ = lock.Do(stay, func(ctx context.Context, _ int64) error {
			<-ctx.Done()
			return nil
		}) // ignore the error: the tutorial continues even if Ben loses the lock
	}()
	select {
	case <-b.queued:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// dismissBen closes the session of the second client, Ben. This releases the lock that Ben holds.
func (g *Guide) dismissBen(context.Context) error {
	err := g.ben.leave()
	g.ben = nil
	return err
}

// leave closes Ben's session and waits until Ben's goroutine has ended. Closing the session
// releases the lock that Ben holds, even if the server does not answer. If b is nil, leave does
// nothing.
func (b *partner) leave() error {
	if b == nil {
		return nil
	}
	err := b.client.Close()
	b.stop()
	<-b.ended
	return err
}
