package secure

import (
	"context"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"

	"github.com/zksh/zksh/internal/secure/kerberos"
)

// mostMemory bounds the growth of the heap while a hostile file or record is read, in bytes.
const mostMemory = 64 << 20

// withinLimits calls f, and fails the test if f needs too much memory or time.
func withinLimits(t *testing.T, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	f()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if n := int64(after.HeapSys) - int64(before.HeapSys); n > mostMemory {
		t.Errorf("the heap has grown by %d bytes", n)
	}
	if took > zktest.Patience {
		t.Errorf("it took %s", took)
	}
}

func FuzzStore(f *testing.F) {
	for _, name := range []string{"key.p12", "key.jks", "openssl.p12", "trust.p12", "trust.jks", "cert.pem", "cert.der", "key.pem", "ec.pem", "locked.pem", "old.pem", "older.pem", "key.jceks"} {
		f.Add(fixture(f, name), password)
		f.Add(fixture(f, name), "")
	}
	f.Add(bomb(f, 1<<40), password)
	f.Add(bomb(f, maxRounds), password)
	f.Fuzz(func(t *testing.T, data []byte, password string) {
		withinLimits(t, func() {
			e, err := readStore(data, password)
			if err == nil && e.key != nil && len(e.chain) > 0 {
				_, _ = keyPair(e, "file")
			}
		})
	})
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte("zookeeper.client.secure=true\nzookeeper.ssl.ciphersuites : \\\n  A,B\n# c\n"))
	f.Add([]byte("a\\u0041=\\\\\\\r\n b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		withinLimits(t, func() {
			var a effectiveSettings
			_ = a.readProperties("file", data)
		})
	})
}

func FuzzJAAS(f *testing.F) {
	f.Add(`Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="s"; };`)
	f.Add(`Client { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="${user.home}/${/}${x" principal="a"; };`)
	f.Add("A { B required c='d\\'' ; E optional; } /* x */ # y\n Client {")
	f.Fuzz(func(t *testing.T, text string) {
		withinLimits(t, func() {
			if m, err := readJAAS(text, "Client"); err == nil {
				_, _ = m.kerberos(kerberos.Options{}, func(string) string { return "" })
			}
		})
	})
}

func FuzzChallenge(f *testing.F) {
	f.Add(challenge, "rspauth=0")
	f.Add(`nonce=a,,=,realm="\`, `"`)
	f.Fuzz(func(t *testing.T, first, second string) {
		answers := []string{first, second}
		withinLimits(t, func() {
			err := (&SASL{user: "bob", password: "secret"}).digestMD5(func([]byte) ([]byte, error) {
				a := answers[0]
				answers = answers[1:]
				return []byte(a), nil
			})
			if err == nil {
				t.Error("whatever it said was a proof")
			}
		})
	})
}

// A handshake with a hostile server fails, at the latest when its time is over.
func FuzzRecords(f *testing.F) {
	dir := f.TempDir()
	ca, err := zktest.NewAuthority(dir, "ca")
	if err != nil {
		f.Fatal(err)
	}
	c, err := Settings{CACert: ca.File}.Load(environment(nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("\x15\x03\x03\x00\x02\x02\x28"))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add([]byte("\x16\x03\x03\xff\xff\x02\xff\xff\xff"))
	f.Add([]byte("\x16\x03\x03\x00\x2a\x02\x00\x00\x26\x03\x03" + "01234567890123456789012345678901" + "\x00\xc0\x2b\x00"))
	f.Fuzz(func(t *testing.T, said []byte) {
		withinLimits(t, func() {
			ours, theirs := net.Pipe()
			done := make(chan struct{})
			go func() { // ends when the client closes the pipe
				defer close(done)
				go func() { // ends when the pipe is closed below
					_, _ = io.Copy(io.Discard, theirs)
				}()
				_, _ = theirs.Write(said)
				theirs.Close()
			}()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			conn, err := c.TLS.Client(ctx, ours, []string{"zk"})
			if err == nil {
				conn.Close()
				t.Error("the handshake succeeded")
			} else if err.Error() == "" {
				t.Error("no word about it")
			}
			<-done
		})
	})
}
