package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/zksh/zksh/lockcmd/queue"
	"github.com/zksh/zksh/lockcmd/zklock"
)

// crier tells the person what happens, in order. It never keeps those waiting
// who have something to tell: a terminal that is held with Ctrl-S must not keep
// a command alive beyond its lock.
type crier struct {
	mu   sync.Mutex
	told chan struct{} // closed when the latest text is told; nil before the first
}

// say hands over a text to be told.
func (c *crier) say(tell func(string), text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, told := c.told, make(chan struct{})
	c.told = told
	go func() { // in its turn; finish waits for the last one
		defer close(told)
		if before != nil {
			<-before
		}
		tell(text)
	}()
}

// finish waits until all is told, or ctx ends.
func (c *crier) finish(ctx context.Context) error {
	c.mu.Lock()
	told := c.told
	c.mu.Unlock()
	if told == nil {
		return nil
	}
	select {
	case <-told:
		return nil
	case <-ctx.Done():
		return errors.New("zksh could not print some messages, because standard error is blocked")
	}
}

func (o *owned) say(text string) { o.table.crier.say(o.env.Screen.Alert, text) }

// hear is the lock's Notify.
func (o *owned) hear(s zklock.Status) {
	left := s.State == zklock.Lost && o.deserted() // by the person's own close or connect
	o.with(func() {
		before := o.status.State
		o.learn(s)
		if left {
			o.leave()
		} else if text := o.news(before, s); text != "" {
			o.say(text)
		}
	})
}

// news is what a person must hear of a change, or empty. Called with the table's
// lock held.
func (o *owned) news(before zklock.State, s zklock.Status) string {
	switch {
	case o.deserted(): // the person knows, and a wait ends with an error of its own
		return ""
	case s.State == zklock.Requeued:
		return fmt.Sprintf("lock %s: zksh lost its place in the queue (%s) and is queueing again", o.path, s.Err)
	case s.State == zklock.Suspended:
		return fmt.Sprintf("lock %s: no connection; the lock is safe for another %s", o.path, seconds(s.Left))
	case s.State == zklock.PresumedLost && s.Err != nil:
		return fmt.Sprintf("lock %s: presumed lost: %s; another client may hold it", o.path, s.Err)
	case s.State == zklock.PresumedLost:
		return "lock " + o.path + ": presumed lost, because the servers have not confirmed it for a whole session timeout; another client may hold it"
	case s.State == zklock.Lost:
		return fmt.Sprintf("lock %s is lost: %s", o.path, s.Err)
	case s.State == zklock.Releasing && s.Err != nil:
		return fmt.Sprintf("lock %s: %s", o.path, s.Err)
	case s.State == zklock.Held && s.Revoke != nil:
		return fmt.Sprintf("lock %s: %s", o.path, o.request(s.Revoke))
	case s.State == zklock.Held && s.Again:
		return "lock " + o.path + ": still held, because the server still has the session"
	case s.State == zklock.Held && before == zklock.Suspended:
		return "lock " + o.path + ": connected again and still held"
	}
	return ""
}

// asks says who asks to let go.
func asks(data []byte) string { return queue.Asker(data) + " asks you to release it" }

// request says who asks to let go, and what follows from that.
func (o *owned) request(data []byte) string {
	switch {
	case o.revocable && o.command != nil:
		return asks(data) + "; zksh is terminating the command"
	case o.revocable:
		return asks(data) + "; zksh is releasing it"
	case o.command != nil:
		return asks(data) + "; the lock is released when the command exits"
	}
	return asks(data) + "; to release it, run: unlock " + o.path
}

// waitLine says at which place the lock waits, behind whom, and for how long, or that
// there is no connection.
func (o *owned) waitLine(waited time.Duration, alone bool) string {
	s := o.current()
	line := fmt.Sprintf("waiting for %s, %s: ", o.path, waited.Round(time.Second))
	switch {
	case alone:
		return line + "no connection"
	case s.State != zklock.Queued || s.Ahead == nil:
		return ""
	}
	return line + fmt.Sprintf("place %d in the queue, behind %s", s.Place, queue.Describe(s.Ahead.Data, s.Ahead.Since, s.Ahead.Node))
}

// seconds shows a duration as people read it.
func seconds(d time.Duration) string {
	return strings.TrimSuffix(max(d, 0).Round(100*time.Millisecond).String(), ".0s")
}
