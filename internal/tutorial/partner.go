package tutorial

import (
	"context"
	"time"

	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
	"github.com/zksh/zksh/lockcmd/zklock/ensemble"
)

// partner is a second client, who contends for the lock.
type partner struct {
	client *ensemble.Client
	stop   context.CancelFunc
	asked  chan struct{} // closed when he is in the queue
	ended  chan struct{} // closed when he contends no more
}

// patience is for how long a sandbox may take over a request.
const patience = 10 * time.Second

// invite has Ben queue for the lock.
func (g *Guide) invite(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := g.sendOff(ctx); err != nil { // who came in vain
		return err
	}
	note, err := queue.Note("Ben deploys", nil)
	if err != nil {
		return err
	}
	client, err := ensemble.Dial(ctx, g.addr, ensemble.Options{})
	if err != nil {
		return err
	}
	stay, stop := context.WithCancel(context.Background())
	b := &partner{client: client, stop: stop, asked: make(chan struct{}), ended: make(chan struct{})}
	asked := false
	lock := zklock.New(client, g.in("{}/lock"), zklock.Options{Data: note, Notify: func(s zklock.Status) {
		if !asked && (s.State == zklock.Queued || s.State == zklock.Held) { // it is told by one goroutine at a time
			asked = true
			close(b.asked)
		}
	}})
	g.ben = b
	go func() { // ends with leave, which waits for it
		defer close(b.ended)
		_ = lock.Do(stay, func(ctx context.Context, _ int64) error {
			<-ctx.Done()
			return nil
		}) // a lock that he has lost is nobody's concern
	}()
	select {
	case <-b.asked:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sendOff has Ben let go.
func (g *Guide) sendOff(context.Context) error {
	err := g.ben.leave()
	g.ben = nil
	return err
}

// leave ends the client, and with its session what it has of the lock, however the server
// is. Nobody has nothing to end.
func (b *partner) leave() error {
	if b == nil {
		return nil
	}
	err := b.client.Close()
	b.stop()
	<-b.ended
	return err
}
