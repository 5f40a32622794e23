package zktest

import (
	"context"
	"testing"
	"time"
)

// Patience is the longest time that a test waits for an event that must happen. It is long enough
// even on a very slow machine.
const Patience = time.Minute

// Eventually waits until condition returns true, by calling it repeatedly. After Patience, it
// fails the test. The failure message contains the description of the condition.
func Eventually(tb testing.TB, description string, condition func() bool) {
	tb.Helper()
	for end := time.Now().Add(Patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("timed out waiting for: %s", description)
		}
	}
}

// Within returns a context that is canceled after Patience, or when the test tb ends.
func Within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	tb.Cleanup(cancel)
	return ctx
}
