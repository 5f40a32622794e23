package shell_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/shell"
)

// A single command tries to connect for no longer than one pass over the servers, which has two
// attempts for each server.
func TestSingleCommandTriesOnePass(t *testing.T) {
	t.Parallel()
	for name, through := range map[string]string{"server": "", "proxy": "socks5://"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var attempts atomic.Int32
			silent := zktest.Answering(t, func(c net.Conn) {
				attempts.Add(1)
				_, _ = io.Copy(io.Discard, c)
			})
			cfg := zkconn.Config{Servers: silent, Timeout: 4 * time.Second}
			if through != "" {
				cfg.Proxy = through + silent
			}
			session, err := zkconn.Open(cfg)
			zktest.Must(t, err)
			var out, errs bytes.Buffer
			s := shell.New(shell.Config{
				Session: session, Commands: commandTable(), Out: shell.Output{W: &out}, Err: shell.Output{W: &errs},
			})
			status := s.RunCommand(context.Background(), []string{"ls", "/"})
			if status != commands.StatusNoServer || out.Len() > 0 || !strings.HasPrefix(errs.String(), "cannot connect: ") {
				t.Errorf("status %d, %q, %q", status, out.String(), errs.String())
			}
			if n := attempts.Load(); n > 2 {
				t.Errorf("%d attempts", n)
			}
		})
	}
}
