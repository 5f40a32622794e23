package zktest

import (
	"context"
	"testing"
	"time"
)

// Patience is how long a test waits for what must come, on the slowest machine.
const Patience = time.Minute

// Eventually polls until ok is true; what is told when that takes too long.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(Patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("timed out waiting for: %s", what)
		}
	}
}

// Within gives a context that ends when tb's patience does.
func Within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	tb.Cleanup(cancel)
	return ctx
}
