package difftest

import (
	"net"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/sandbox/rawzk"
	"github.com/zksh/zksh/internal/zktest"
)

// BenchmarkSequential measures sequential requests over TCP to the sandbox and to
// ZooKeeper, which does not wait for its disk here.
func BenchmarkSequential(b *testing.B) {
	b.Run("sandbox", func(b *testing.B) {
		s := sandbox.New(sandbox.Options{MaxTreeBytes: 8 << 30})
		defer s.Close()
		addr, err := s.Listen("127.0.0.1:0")
		zktest.Must(b, err)
		sequential(b, addr.String())
	})
	b.Run("real", func(b *testing.B) { sequential(b, zktest.Start(b, zktest.Heap(1024)).Addr()) })
}

func sequential(b *testing.B, addr string) {
	nc, err := net.Dial("tcp", addr)
	zktest.Must(b, err)
	defer nc.Close()
	c, err := rawzk.Connect(nc, rawzk.Session{Timeout: 30000}, 0)
	zktest.Must(b, err)
	call := func(op int32, body []byte) {
		if frames, err := c.Call(op, body); err != nil || frames[len(frames)-1].Err != 0 {
			b.Fatal(err, frames)
		}
	}
	call(jute.OpCreate, rawzk.Create("/one", []byte("data"), rawzk.Open, 0))
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			call(jute.OpCreate, rawzk.Create("/n", []byte("data"), rawzk.Open, 2))
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
	})
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			call(jute.OpGetData, rawzk.PathWatch("/one", false))
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
	})
}
