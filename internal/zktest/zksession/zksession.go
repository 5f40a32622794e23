// Package zksession opens ZooKeeper sessions for tests. It is not part of package zktest, because
// it imports zkconn, whose tests import zktest.
package zksession

import (
	"context"
	"testing"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// Open opens a session, waits until it is connected, and closes it when the test tb ends.
func Open(tb testing.TB, cfg zkconn.Config) *zkconn.Session {
	tb.Helper()
	s, err := zkconn.Open(cfg)
	zktest.Must(tb, err)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), zktest.Patience)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	zktest.Must(tb, s.WaitReady(zktest.Within(tb)))
	return s
}
