package userfile

import "context"

// Await returns the result of read. If ctx ends first, it returns the cause of ctx instead, and
// read continues in its own goroutine, perhaps until the process ends. This is useful because
// opening or reading a pipe or device can block forever.
func Await[T any](ctx context.Context, read func() (T, error)) (none T, _ error) {
	type result struct {
		value T
		err   error
	}
	got := make(chan result, 1)
	go func() {
		value, err := read()
		got <- result{value, err}
	}()
	select {
	case r := <-got:
		return r.value, r.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
