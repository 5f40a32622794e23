package lockcmd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"
)

// A notifier prints notices for the user, in order. Its notify method never blocks. Otherwise,
// a user who has stopped the terminal with Ctrl-S would also stop zksh, and a command could
// continue to run after the loss of its lock.
type notifier struct {
	mu      sync.Mutex
	printed chan struct{} // closed when the latest notice has been printed; nil before the first notice
}

// notify calls show with text in a goroutine, after all earlier notices have been printed. It
// returns at once.
func (c *notifier) notify(show func(string), text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, done := c.printed, make(chan struct{})
	c.printed = done
	go func() { // waits for the previous notice; finish waits for the last one
		defer close(done)
		if before != nil {
			<-before
		}
		show(text)
	}()
}

// finish waits until all notices have been printed or ctx ends.
func (c *notifier) finish(ctx context.Context) error {
	c.mu.Lock()
	last := c.printed
	c.mu.Unlock()
	if last == nil {
		return nil
	}
	select {
	case <-last:
		return nil
	case <-ctx.Done():
		return errors.New("zksh could not print some messages, because standard error is blocked")
	}
}

// seconds formats a duration for people, rounded to a tenth of a second.
func seconds(d time.Duration) string {
	return strings.TrimSuffix(max(d, 0).Round(100*time.Millisecond).String(), ".0s")
}
