package lockcmd

import (
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/zksh/zksh/internal/render"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/queue"
)

// The benchmark uses a thousand queues of ten contenders.
const (
	benchQueues   = 1000
	benchWaiters  = 10
	benchSessions = 100
)

// newCrowdedFixture creates the queues. All sessions enter them in the same order.
func newCrowdedFixture(b *testing.B, addr string) *fixture {
	fix := newFixture(b, addr)
	pipe, err := fix.Pipe(zktest.Within(b), fix.root)
	if err != nil {
		b.Fatal(err)
	}
	var made []*zkconn.Pending[zkconn.Written]
	for q := range benchQueues {
		made = append(made, zkconn.Add(pipe, zkconn.Create(fmt.Sprintf("%s/%d", fix.root, q), nil, zkconn.OpenACL(), zkconn.CreateMode{})))
	}
	for _, m := range made {
		if _, err := m.Wait(zktest.Within(b)); err != nil {
			b.Fatal(err)
		}
	}
	sessions := make([]*zkconn.Session, benchSessions)
	for i := range sessions {
		sessions[i] = open(b, addr, usualTimeout)
	}
	name := func(q, i int) string {
		return fmt.Sprintf("/%d/_c_%08d-0000-4000-8000-0123456789ab-lock-%010d", q, i, i)
	}
	eachContender(sessions, func(s *zkconn.Session, q, i int) {
		fix.create(s, name(q, i), `{"host":"web1","pid":1,"user":"ann","start":"2026-01-01T00:00:00.000Z"}`, zkconn.OpenACL(), true)
	})
	return fix
}

// eachContender calls do for each session in each of its queues.
func eachContender(sessions []*zkconn.Session, do func(s *zkconn.Session, q, i int)) {
	var all sync.WaitGroup
	for i, s := range sessions {
		all.Go(func() { // ends after its last queue
			for q := range benchQueues {
				if place := i - q%(benchSessions-benchWaiters); place >= 0 && place < benchWaiters {
					do(s, q, i)
				}
			}
		})
	}
	all.Wait()
}

func eachServer(b *testing.B, measure func(b *testing.B, fix *fixture)) {
	b.Run("sandbox", func(b *testing.B) { measure(b, newCrowdedFixture(b, zktest.Sandbox(b, sandbox.Options{}).Addr())) })
	b.Run("server", func(b *testing.B) { measure(b, newCrowdedFixture(b, zktest.Shared(b).Addr())) })
}

func BenchmarkAllQueues(b *testing.B) {
	eachServer(b, func(b *testing.B, fix *fixture) {
		for b.Loop() {
			s, err := queue.LookAll(zktest.Within(b), ensemble{fix.Session}, fix.root)
			if err != nil || len(s.Queues) != benchQueues || s.Walked != "" {
				b.Fatal(err)
			}
			if err := (&render.Printer{W: io.Discard, Format: render.Text}).Print(s); err != nil {
				b.Fatal(err)
			}
		}
	})
}
