package zklock

import (
	"context"
	"sync"
)

// A background runs functions in goroutines, and can wait until all of them have returned.
type background struct {
	mu   sync.Mutex
	n    int           // number of running functions
	idle chan struct{} // closed when n falls to 0; nil while n is 0
}

// run calls f in a new goroutine.
func (b *background) run(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n++; b.n == 1 {
		b.idle = make(chan struct{})
	}
	go func() { // wait waits for this goroutine
		defer b.done()
		f()
	}()
}

func (b *background) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 {
		close(b.idle)
		b.idle = nil
	}
}

// wait waits until no function is running, or ctx ends.
func (b *background) wait(ctx context.Context) error {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
