//go:build unix

package e2e

import (
	"encoding/binary"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// If the server does not know addWatch, zksh reports the version that watch -r requires,
// although such a server drops the connection.
func TestWatchOnOldServer(t *testing.T) {
	t.Parallel()
	box := zktest.Sandbox(t, sandbox.Options{})
	for _, server := range []string{box.Addr(), zktest.Shared(t).Addr()} {
		cmd := exec.Command("zksh", "-server", withoutAddWatch(t, server), "watch", "-r", "/zookeeper")
		cmd.Env = homeEnv(t.TempDir())
		var errs strings.Builder
		cmd.Stderr = &errs
		zktest.Must(t, cmd.Start())
		wantExit(t, cmd, 1)
		want := "cannot watch /zookeeper recursively: this requires ZooKeeper 3.6 or later; omit -r to watch only the znode itself\n"
		if errs.String() != want {
			t.Errorf("%q", errs.String())
		}
	}
}

// withoutAddWatch starts a proxy that replaces addWatch requests by requests that the server
// does not know, and returns the proxy's address.
func withoutAddWatch(t *testing.T, server string) string {
	t.Helper()
	const unknown = 9999
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	zktest.Must(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() { // ends when ln is closed
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			target, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go func() { // this goroutine and the next end when either connection closes
				defer client.Close()
				_, _ = io.Copy(client, target)
			}()
			go func() {
				defer target.Close()
				for first := true; ; first = false {
					head := make([]byte, 4)
					if _, err := io.ReadFull(client, head); err != nil {
						return
					}
					body := make([]byte, binary.BigEndian.Uint32(head))
					if _, err := io.ReadFull(client, body); err != nil {
						return
					}
					if !first && binary.BigEndian.Uint32(body[4:]) == jute.OpAddWatch {
						binary.BigEndian.PutUint32(body[4:], unknown)
					}
					if _, err := target.Write(append(head, body...)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}
