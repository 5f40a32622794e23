package zktest

import (
	"cmp"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
)

// A Box is a sandbox server that a test controls.
type Box struct {
	*sandbox.Server
	addr string
}

// Sandbox starts a sandbox server, which ends with the test tb. It has the same tick and the same
// limits of session timeouts as a server that Start returns.
//
// By default, it does not delete empty containers. The default of MinTimeout is 500 ms.
func Sandbox(tb testing.TB, opt sandbox.Options) *Box {
	tb.Helper()
	opt.ReapEvery = cmp.Or(opt.ReapEvery, time.Hour)
	opt.Tick, opt.MaxTimeout = 500*time.Millisecond, time.Minute
	opt.MinTimeout = cmp.Or(opt.MinTimeout, 500*time.Millisecond)
	s := sandbox.New(opt)
	tb.Cleanup(func() { _ = s.Close() })
	addr, err := s.Listen("127.0.0.1:0")
	Must(tb, err)
	return &Box{s, addr.String()}
}

// Addr returns the address of the sandbox server, in the form "127.0.0.1:port".
func (b *Box) Addr() string { return b.addr }
