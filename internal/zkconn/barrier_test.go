package zkconn_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
)

// A barrier is an empty transaction: an isolated server cannot execute it, and it changes
// nothing. A fence does not block it.
func TestBarrier(t *testing.T) {
	onSandboxAndServer(t, func(t *testing.T, s, rival *zkconn.Session, p *zktest.Proxy) {
		ctx := zktest.Within(t)
		zktest.Must(t, zkconn.Exec(ctx, rival, zkconn.Create("/x", nil, zkconn.OpenACL(), zkconn.CreateMode{})))
		s.SetFence(nodeFence{s.ServerPath("/gone")})
		zktest.Must(t, zkconn.Exec(ctx, s, zkconn.Sync("/")))
		before, err := zkconn.Do(ctx, s, zkconn.Zxid())
		zktest.Must(t, err)
		at := s.Ensemble().Epoch()
		zktest.Must(t, at.Barrier(ctx))
		if after, err := zkconn.Do(ctx, s, zkconn.Zxid()); err != nil || after <= before {
			t.Errorf("from %#x to %#x, %v", before, after, err)
		}
		stats, err := at.Stats(ctx, []string{s.ServerPath("/x"), s.ServerPath("/gone"), "/zookeeper"})
		if err != nil || len(stats) != 3 || stats[0] == nil || stats[1] != nil || stats[2] == nil {
			t.Errorf("%v, %v", stats, err)
		}
		if now, present := s.Ensemble().EpochOf(s.Info().ID); now != at || !present {
			t.Error("another session than a moment ago")
		}
		if _, present := s.Ensemble().EpochOf(rival.Info().ID); present {
			t.Error("the rival's session is ours")
		}

		p.HoldReplies(true) // a caller that gives up learns nothing, and no outcome is in doubt
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if err := at.Barrier(short); !errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*zkconn.AbandonedError)) {
			t.Errorf("given up: %v", err)
		}
		p.HoldReplies(false)

		zktest.Must(t, s.Close(ctx))
		if err := at.Barrier(ctx); !errors.Is(err, zkconn.ErrNotConnected) {
			t.Errorf("after the session: %v", err)
		}
		if _, present := s.Ensemble().EpochOf(s.Info().ID); present {
			t.Error("a session that was closed is there")
		}
	})
}
