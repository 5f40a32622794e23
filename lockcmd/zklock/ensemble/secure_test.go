package ensemble_test

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

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
	zktest.Must(t, err)
	server, err := ca.Issue(zktest.Cert{Name: "localhost"})
	zktest.Must(t, err)
	client, err := ca.Issue(zktest.Cert{Name: "program"})
	zktest.Must(t, err)
	box := zktest.Sandbox(t, sandbox.Options{})
	_, port, _ := strings.Cut(zktest.Front(t, box.Addr(), &tls.Config{
		Certificates: []tls.Certificate{server.Certificate}, ClientCAs: ca.Pool(), ClientAuth: tls.RequireAndVerifyClientCert,
	}), ":")
	c := dial(t, "localhost:"+port, ensemble.Options{Secure: ensemble.Secure{CACert: ca.File, Cert: client.File}})
	lease, err := c.Mutex(path).Lock(zktest.Within(t))
	zktest.Must(t, err)
	if _, err := open(t, box, withTimeout(longTimeout)).Mutex(path).TryLock(zktest.Within(t)); !errors.Is(err, zklock.ErrBusy) {
		t.Errorf("another client: %v", err)
	}
	zktest.Must(t, lease.Unlock(zktest.Within(t)))
	if _, err := ensemble.Dial(t.Context(), "localhost:"+port, ensemble.Options{Secure: ensemble.Secure{CACert: "nowhere"}}); err == nil || !strings.Contains(err.Error(), "file nowhere does not exist") {
		t.Errorf("%v", err)
	}
}

// A program can use locks with Kerberos, with a keytab or a ticket cache. The znodes of the lock are
// its own.
func TestKerberos(t *testing.T) {
	kdc := zktest.StartKDC(t)
	server := zktest.Start(t, zktest.Kerberos(kdc)).Addr()
	t.Setenv("KRB5_CONFIG", kdc.Conf)
	t.Setenv("KRB5CCNAME", kdc.Kinit("alice"))
	jaas := filepath.Join(t.TempDir(), "jaas")
	zktest.Must(t, os.WriteFile(jaas, []byte(`Client { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="`+
		kdc.Keytab("alice")+`" principal="alice"; };`), 0o600))
	for _, s := range []ensemble.Secure{{Kerberos: true}, {JAAS: jaas}} {
		c := dial(t, server, ensemble.Options{Secure: s})
		if end := c.TicketEnd(); end.IsZero() == s.Kerberos || s.Kerberos && time.Until(end).Round(time.Hour) != 10*time.Hour {
			t.Errorf("%+v: the ticket ends at %s", s, end)
		}
		lock := zklock.New(c, path, zklock.Options{ACL: []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "alice"}}})
		lease, err := lock.Lock(zktest.Within(t))
		zktest.Must(t, err)
		zktest.Must(t, lease.Unlock(zktest.Within(t)))
	}
	brief := kdc.Kinit("alice", "-l", "5m")
	t.Setenv("KRB5CCNAME", brief)
	c := dial(t, server, ensemble.Options{Secure: ensemble.Secure{Kerberos: true}})
	before := c.TicketEnd()
	kdc.Run("kinit", "-c", "FILE:"+brief, "alice")
	if after := c.TicketEnd(); time.Until(before) > 5*time.Minute || time.Until(after) < 9*time.Hour {
		t.Errorf("the ticket ends at %s, and the new one at %s", before, after)
	}
	if _, err := ensemble.Dial(t.Context(), server, ensemble.Options{Secure: ensemble.Secure{JAAS: jaas + "x"}}); err == nil {
		t.Error("no error")
	}
}
