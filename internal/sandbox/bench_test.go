package sandbox

import (
	"fmt"
	"github.com/zksh/zksh/internal/jute"
	"net"
	"runtime"
	"testing"

	"github.com/zksh/zksh/internal/sandbox/rawzk"
)

func benchClient(b *testing.B, nc net.Conn, err error) *rawzk.Conn {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = nc.Close() })
	c, err := rawzk.Connect(nc, rawzk.Session{Timeout: 30000}, 0)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkStart measures the time from New until the first session is open.
func BenchmarkStart(b *testing.B) {
	b.Run("in-process", func(b *testing.B) {
		for b.Loop() {
			s := New(Options{})
			nc, err := s.Dial()
			if err != nil {
				b.Fatal(err)
			}
			if _, err := rawzk.Connect(nc, rawzk.Session{}, 0); err != nil {
				b.Fatal(err)
			}
			_ = nc.Close()
			_ = s.Close()
		}
	})
	b.Run("tcp", func(b *testing.B) {
		for b.Loop() {
			s := New(Options{})
			addr, err := s.Listen("127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			nc, err := net.Dial("tcp", addr.String())
			if err != nil {
				b.Fatal(err)
			}
			if _, err := rawzk.Connect(nc, rawzk.Session{}, 0); err != nil {
				b.Fatal(err)
			}
			_ = nc.Close()
			_ = s.Close()
		}
	})
}

// BenchmarkInProcess measures sequential requests over a connection from Dial.
func BenchmarkInProcess(b *testing.B) {
	s := New(Options{MaxTreeBytes: 8 << 30})
	defer s.Close()
	nc, err := s.Dial()
	c := benchClient(b, nc, err)
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Call(jute.OpCreate, rawzk.Create("/n", []byte("data"), rawzk.Open, modeSequential)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			if _, err := c.Call(jute.OpGetData, rawzk.PathWatch("/n0000000000", false)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkMemory measures the memory of 100,000 nodes in 100 directories, with paths of
// some 25 bytes and 20 bytes of data.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		before := heap()
		s := New(Options{})
		batch := batch{s: s}
		open := []acl{{perms: permAll, id: id{"world", "anyone"}}}
		put := func(path string) {
			x, err := batch.prepare(&request{op: jute.OpCreate, path: path, data: make([]byte, 20), acl: open, ttl: -1})
			if err != codeOK {
				b.Fatal(path, err)
			}
			s.tree.apply(&jute.Encoder{}, jute.OpCreate, &x, 1, 1)
		}
		for i := range 100 {
			dir := fmt.Sprintf("/directory-%03d", i)
			put(dir)
			for j := range 999 {
				put(fmt.Sprintf("%s/node-%04d", dir, j))
			}
		}
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB/100k-nodes")
		b.ReportMetric(float64(s.tree.bytes)/(1<<20), "MiB-accounted")
		runtime.KeepAlive(s)
		_ = s.Close()
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
