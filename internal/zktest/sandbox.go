package zktest

import (
	"cmp"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
)

// A Box is a sandbox that a test controls.
type Box struct {
	*sandbox.Server
	addr string
}

// Sandbox starts a sandbox with the tick and session timeouts of the servers that Start
// starts. It ends with tb. Unless opt sets ReapEvery, empty containers stay. Unless opt sets
// MinTimeout, the shortest session timeout is 500 ms, even for products, whose own 10 s
// would make tests slow.
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

// Addr returns the address of the sandbox as "127.0.0.1:port".
func (b *Box) Addr() string { return b.addr }
