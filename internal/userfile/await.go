package userfile

import "context"

// Await returns the result of do, or the cause of ctx if ctx ends first. Then do continues
// in its goroutine, perhaps until the process ends: opening or reading a file that is not a
// regular file can block for ever.
func Await[T any](ctx context.Context, do func() (T, error)) (none T, _ error) {
	type result struct {
		of  T
		err error
	}
	got := make(chan result, 1)
	go func() {
		of, err := do()
		got <- result{of, err}
	}()
	select {
	case r := <-got:
		return r.of, r.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}
