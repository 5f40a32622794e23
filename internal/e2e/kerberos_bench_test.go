//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// BenchmarkKerberos measures zksh whoami with Kerberos and a cached ticket of the service, and with
// SASL DIGEST-MD5, in turn. Goal: Kerberos takes at most 1.3 times as long.
func BenchmarkKerberos(b *testing.B) {
	kdc := zktest.StartKDC(b)
	cache := kdc.Kinit("alice")
	kdc.Run("kvno", "-q", "-c", "FILE:"+cache, "zookeeper/localhost")
	jaas := filepath.Join(b.TempDir(), "server.jaas")
	auth := filepath.Join(b.TempDir(), "auth")
	zktest.Must(b, os.WriteFile(jaas, []byte(`Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="pw"; };`), 0o600))
	zktest.Must(b, os.WriteFile(auth, []byte("sasl bob:pw\n"), 0o600))
	digest := zktest.Start(b, zktest.JavaProperty("java.security.auth.login.config", jaas),
		zktest.Line("authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"))
	lines := [][]string{
		{"--server", zktest.Start(b, zktest.Kerberos(kdc)).Addr(), "--kerberos", "whoami"},
		{"--server", digest.Addr(), "--auth-file", auth, "whoami"},
	}
	users := []string{"sasl: alice\n", "sasl: bob\n"}
	run := func(which int) time.Duration {
		cmd := exec.Command("zksh", lines[which]...)
		cmd.Env = append(homeEnv(b.TempDir()), "KRB5_CONFIG="+kdc.Conf, "KRB5CCNAME="+cache)
		start := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(start)
		if err != nil || !strings.Contains(string(out), users[which]) {
			b.Fatalf("%v: %s", err, out)
		}
		return took
	}
	for range 50 { // until the servers have compiled their code
		run(0)
		run(1)
	}
	var took [2][]time.Duration
	for b.Loop() {
		for which := range took {
			took[which] = append(took[which], run(which))
		}
	}
	for _, times := range took {
		slices.Sort(times)
	}
	median := func(times []time.Duration) float64 { return float64(times[len(times)/2]) }
	b.ReportMetric(median(took[0])/median(took[1]), "ratio")
}
