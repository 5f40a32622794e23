package zkconn

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// The timeout limits how long a session tries to reach a server, whatever is silent on the way: the
// servers, the proxy, or the servers behind it. It limits all attempts together.
func TestTimeoutLimitsTheWay(t *testing.T) {
	const timeout = 6 * time.Second
	noRoute := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	to := func(play func(p *remote)) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) {
			return pipeTo(0, func(_ int, p *remote) { play(p) }), nil
		}
	}
	silent := to(func(p *remote) { _, _ = io.Copy(io.Discard, p) })
	halfProxy := to(func(p *remote) { // agrees to serve, but never connects
		if _, err := io.ReadFull(p, make([]byte, 3)); err == nil {
			_, _ = p.Write([]byte{5, 0})
		}
		_, _ = io.Copy(io.Discard, p)
	})
	const socks = "socks5://proxy.invalid:1080"
	for name, c := range map[string]struct {
		dial  func(ctx context.Context, network, addr string) (net.Conn, error)
		proxy string
	}{
		"no route":              {noRoute, ""},
		"silent server":         {silent, ""},
		"no route to the proxy": {noRoute, socks},
		"silent proxy":          {silent, socks},
		"proxy without a way":   {halfProxy, socks},
	} {
		for _, servers := range []string{"127.0.0.1:1", "127.0.0.1:1,127.0.0.2:2,127.0.0.3:3"} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					begin := time.Now()
					s, err := Open(Config{Servers: servers, Timeout: timeout, Proxy: c.proxy, dial: c.dial})
					zktest.Must(t, err)
					defer func() {
						if err := s.Close(t.Context()); err != nil {
							t.Errorf("close: %v", err)
						}
						<-ended(s.current())
					}()
					err = s.Ready(testContext(t))
					if took := time.Since(begin); !errors.As(err, new(*NoServerError)) || took > timeout {
						t.Errorf("%s: %v after %s", servers, err, took)
					}
				})
			})
		}
	}
}
