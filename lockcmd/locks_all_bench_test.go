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

// Bounds that the benchmarks below are to keep, for a thousand queues of ten. In the
// second one nothing is found, as in most ensembles, so that no second cut is waited
// for: that would be 2 s more.
const (
	benchQueues   = 1000
	benchWaiters  = 10
	benchSessions = 100
)

// crowded makes the queues, on which the sessions contend in one order.
func crowded(b *testing.B, addr string) *bed {
	bed := newBed(b, addr)
	pipe, err := bed.Pipe(zktest.Within(b), bed.root)
	if err != nil {
		b.Fatal(err)
	}
	var made []*zkconn.Pending[zkconn.Written]
	for q := range benchQueues {
		made = append(made, zkconn.Add(pipe, zkconn.Create(fmt.Sprintf("%s/%d", bed.root, q), nil, zkconn.OpenACL(), zkconn.CreateMode{})))
	}
	for _, m := range made {
		if _, err := m.Wait(zktest.Within(b)); err != nil {
			b.Fatal(err)
		}
	}
	sessions := make([]*zkconn.Session, benchSessions)
	for i := range sessions {
		sessions[i] = open(b, addr, usual)
	}
	name := func(q, i int) string {
		return fmt.Sprintf("/%d/_c_%08d-0000-4000-8000-0123456789ab-lock-%010d", q, i, i)
	}
	contend(sessions, func(s *zkconn.Session, q, i, _ int) {
		bed.create(s, name(q, i), `{"host":"web1","pid":1,"user":"ann","start":"2026-01-01T00:00:00.000Z"}`, zkconn.OpenACL(), true)
	})
	contend(sessions, func(s *zkconn.Session, q, i, place int) {
		if place == 0 {
			return
		}
		if err := zkconn.Exec(zktest.Within(b), s, zkconn.Exists(bed.root+name(q, i-1)).Watch(true)); err != nil {
			b.Error(err)
		}
	})
	return bed
}

// contend calls do for each session in each queue that it is in, at its place.
func contend(sessions []*zkconn.Session, do func(s *zkconn.Session, q, i, place int)) {
	var all sync.WaitGroup
	for i, s := range sessions {
		all.Go(func() { // ends with its last queue
			for q := range benchQueues {
				if place := i - q%(benchSessions-benchWaiters); place >= 0 && place < benchWaiters {
					do(s, q, i, place)
				}
			}
		})
	}
	all.Wait()
}

func eachServer(b *testing.B, measure func(b *testing.B, bed *bed)) {
	b.Run("sandbox", func(b *testing.B) { measure(b, crowded(b, zktest.Sandbox(b, sandbox.Options{}).Addr())) })
	b.Run("server", func(b *testing.B) { measure(b, crowded(b, zktest.Shared(b).Addr())) })
}

func BenchmarkAllQueues(b *testing.B) {
	eachServer(b, func(b *testing.B, bed *bed) {
		for b.Loop() {
			s, err := queue.LookAll(zktest.Within(b), ensemble{bed.Session}, bed.root)
			if err != nil || len(s.Queues) != benchQueues || s.Walked != "" {
				b.Fatal(err)
			}
			if err := (&render.Printer{W: io.Discard, Format: render.Text}).Print(s); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDeadlocks(b *testing.B) {
	eachServer(b, func(b *testing.B, bed *bed) {
		for b.Loop() {
			d, err := queue.FindDeadlocks(zktest.Within(b), ensemble{bed.Session}, bed.root)
			if err != nil || d.Queues != benchQueues || len(d.Findings) > 0 {
				b.Fatalf("%v, %d queues, %d findings", err, d.Queues, len(d.Findings))
			}
		}
	})
}
