package cluster

import (
	"context"
	"net"
	"time"
)

// A fake is an ensemble whose servers answer four-letter commands with the function word.
type fake struct {
	hosts     []string
	config    string
	configErr error
	word      func(ctx context.Context, addr, word string) (string, error)
}

var _ Ensemble = (*fake)(nil)

func (f *fake) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, addr)
}

func (f *fake) LookupHost(ctx context.Context, host string) ([]string, error) {
	return net.DefaultResolver.LookupHost(ctx, host)
}

func (f *fake) Hosts() []string                        { return f.hosts }
func (f *fake) Config(context.Context) (string, error) { return f.config, f.configErr }
func (f *fake) Self() (int64, time.Time)               { return 1, time.Time{} }
func (f *fake) ClientPath(path string) string          { return path }

func (f *fake) Word(ctx context.Context, addr, word string) (string, error) {
	return f.word(ctx, addr, word)
}
