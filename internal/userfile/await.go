package userfile

import "context"

// Await calls read and returns its result, or the cause of ctx if ctx ends first. In that case,
// read continues in its own goroutine, perhaps until the process ends, because opening or
// reading a file that is not a regular file can block forever.
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
