package userfile

import "context"

// UnlessLeft is what do comes to, or why ctx has ended: opening and reading what is no
// regular file can block for ever, and the goroutine that does it then ends with the
// process.
func UnlessLeft[T any](ctx context.Context, do func() (T, error)) (none T, _ error) {
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
