package zktest

import (
	"cmp"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
)

// Box is a sandbox under one test's control.
type Box struct {
	*sandbox.Server
	addr string
}

// Sandbox starts a sandbox with the timings of the real servers here, also that of
// containers' end, unless opt has one. It ends with tb. The products of others have their
// own shortest timeout only if opt has it: tests would wait for it.
func Sandbox(tb testing.TB, opt sandbox.Options) *Box {
	tb.Helper()
	opt.ReapEvery = cmp.Or(opt.ReapEvery, time.Hour)
	opt.Tick, opt.MinTimeout, opt.MaxTimeout = 500*time.Millisecond, cmp.Or(opt.MinTimeout, 500*time.Millisecond), time.Minute
	s := sandbox.New(opt)
	tb.Cleanup(func() { _ = s.Close() })
	addr, err := s.Listen("127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return &Box{s, addr.String()}
}

// Addr is where it listens, "127.0.0.1:port".
func (b *Box) Addr() string { return b.addr }
