package zktest

import (
	"context"
	"testing"
	"time"
)

// Patience is the longest time that a test waits for an expected event. It is enough for
// the slowest machine.
const Patience = time.Minute

// Eventually polls until ok returns true. After Patience, it fails the test with a message
// that contains what.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(Patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("timed out waiting for: %s", what)
		}
	}
}

// Within returns a context with the timeout Patience. It is canceled at the end of tb.
func Within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	tb.Cleanup(cancel)
	return ctx
}
