// Package zksession opens ZooKeeper sessions for tests. It cannot be a part of package zktest,
// because it imports package zkconn, whose tests import zktest.
package zksession

import (
	"context"
	"testing"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// Open opens a session and waits until it is ready. The session is closed when the test tb ends.
func Open(tb testing.TB, cfg zkconn.Config) *zkconn.Session {
	tb.Helper()
	s, err := zkconn.Open(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	if err := s.WaitReady(zktest.Within(tb)); err != nil {
		tb.Fatal(err)
	}
	return s
}
