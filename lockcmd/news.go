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

// waitLine says at which place the lock waits, behind whom, and for how long, or that
// there is no connection.
func waitLine(path string, s zklock.Status, waited time.Duration, alone bool) string {
	line := fmt.Sprintf("waiting for %s, %s: ", path, waited.Round(time.Second))
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
