package zktest

import (
	"context"
	"testing"
	"time"
)

// Patience is the longest time that a test waits for an expected event. It is long enough even
// on a very slow machine.
const Patience = time.Minute

// Eventually calls condition repeatedly until it returns true. After Patience, it fails the test
// with a message that contains the description of the condition.
func Eventually(tb testing.TB, description string, condition func() bool) {
	tb.Helper()
	for end := time.Now().Add(Patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("timed out waiting for: %s", description)
		}
	}
}

// Within returns a context with the timeout Patience. The context is canceled when the test tb
// ends.
func Within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	tb.Cleanup(cancel)
	return ctx
}
