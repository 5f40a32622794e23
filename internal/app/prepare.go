package app

import (
	"context"
	"fmt"

	"github.com/zksh/zksh/internal/zkconn"
)

// Prepare does what must precede connecting and may take time: it looks up the servers if the
// connect string names a DNS SRV record, and runs the auth-command.
func (o *Options) Prepare(ctx context.Context) error {
	if err := o.lookUp(ctx); err != nil {
		return err
	}
	return o.authenticate(ctx)
}

// lookUp looks up the servers if the connect string names a DNS SRV record.
func (o *Options) lookUp(ctx context.Context) error {
	if parsed, err := zkconn.ParseServers(o.Server); err == nil && parsed.Hosts == nil && o.Proxy != "" {
		return fmt.Errorf("server %q: a proxy cannot look up DNS SRV records; specify the servers as host[:port][,host[:port]…][/chroot]", o.Server)
	}
	servers, err := zkconn.LookUpServers(ctx, o.resolver, o.Server)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		if o.record = ""; servers != o.Server {
			o.record = o.Server
		}
		o.Server = servers
	}
	return err
}
