package ensemble_test

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd/zklock"
	"github.com/zksh/zksh/lockcmd/zklock/ensemble"
)

// A program can use locks over TLS, with the same settings as zksh.
func TestSecure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := zktest.NewAuthority(dir, "ca")
	must(t, err)
	server, err := ca.Issue(zktest.Cert{Name: "localhost"})
	must(t, err)
	client, err := ca.Issue(zktest.Cert{Name: "program"})
	must(t, err)
	box := zktest.Sandbox(t, sandbox.Options{})
	_, port, _ := strings.Cut(zktest.Front(t, box.Addr(), &tls.Config{
		Certificates: []tls.Certificate{server.Certificate}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	}), ":")
	c := dial(t, "localhost:"+port, ensemble.Options{Secure: ensemble.Secure{CACert: ca.File, Cert: client.File}})
	lease, err := c.Mutex(path).Lock(zktest.Within(t))
	must(t, err)
	if _, err := open(t, box, withTimeout(longTimeout)).Mutex(path).TryLock(zktest.Within(t)); !errors.Is(err, zklock.ErrBusy) {
		t.Errorf("another client: %v", err)
	}
	must(t, lease.Unlock(zktest.Within(t)))
	if _, err := ensemble.Dial(t.Context(), "localhost:"+port, ensemble.Options{Secure: ensemble.Secure{CACert: "nowhere"}}); err == nil || !strings.Contains(err.Error(), "file nowhere does not exist") {
		t.Errorf("%v", err)
	}
}
