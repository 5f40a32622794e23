//go:build unix

package e2e

import (
	"bytes"
	"crypto/tls"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// Over TLS and through a proxy, a lock survives the loss of one server after the other.
func TestProxyFailover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := zktest.NewAuthority(dir, "ca")
	zktest.Must(t, err)
	cert, err := ca.Issue(zktest.Cert{Name: "zk", DNS: []string{"zk1.invalid", "zk2.invalid"}})
	zktest.Must(t, err)
	server := zktest.Sandbox(t, sandbox.Options{}).Addr()
	addrs, servers := map[string]string{}, map[string]*zktest.Proxy{}
	for _, name := range []string{"zk1.invalid:2281", "zk2.invalid:2281"} {
		servers[name] = zktest.NewProxy(t, zktest.Front(t, server, &tls.Config{Certificates: []tls.Certificate{cert.Certificate}}))
		addrs[name] = servers[name].Addr()
	}
	socks := zktest.NewSOCKS(t, addrs, "", "")
	begun, end, traced := filepath.Join(dir, "begun"), filepath.Join(dir, "end"), filepath.Join(dir, "trace")
	cmd := exec.CommandContext(zktest.Within(t), "zksh", "--proxy", "socks5://"+socks.Addr(), "--server", "zk1.invalid:2281,zk2.invalid:2281",
		"--cacert", ca.File, "--trace", traced, "lock", "/held", "--", "sh", "-c", "touch "+begun+"; until [ -e "+end+" ]; do sleep 0.05; done")
	cmd.Env = homeEnv(dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	zktest.Must(t, cmd.Start())
	zktest.Eventually(t, "the lock is held", func() bool { return exists(begun) })
	for round := range 2 {
		asked := socks.Asked()
		current := servers[asked[len(asked)-1]] // the server that zksh has connected to
		current.Refuse(true)
		current.Cut()
		zktest.Eventually(t, "the session is resumed on the other server", func() bool {
			text, _ := os.ReadFile(traced)
			return strings.Count(string(text), "< connect            OK") == round+2
		})
		current.Refuse(false)
	}
	zktest.Must(t, os.WriteFile(end, nil, 0o600))
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out.String())
	}
}
