//go:build unix

package secure

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Every property that names a file with a secret, or is one itself, rejects the file if other users
// can read it. A new property fails this test until somebody has decided what its value is.
func TestAccessToFilesOfProperties(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("changeit\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const on = "zookeeper.client.secure=true\n"
	keys := "zookeeper.ssl.keyStore.location=testdata/key.p12\n" // readable by everybody, because it has a password
	trust := "zookeeper.ssl.trustStore.location=testdata/trust.jks\n"
	pair := filepath.Join(t.TempDir(), "pair")
	if err := os.WriteFile(pair, append(fixture(t, "key.pem"), fixture(t, "cert.pem")...), 0o600); err != nil {
		t.Fatal(err)
	}
	files := map[string]struct{ file, others string }{ // the file with the secret, and other properties
		"zookeeper.ssl.keyStore.location":       {pair, on},
		"zookeeper.ssl.keyStore.passwordPath":   {password, on + keys},
		"zookeeper.ssl.trustStore.location":     {pair, on},
		"zookeeper.ssl.trustStore.passwordPath": {password, on + trust},
		"java.security.auth.login.config":       {private(t, "digest.jaas"), on},
	}
	notSecret := []string{ // among the properties that accept any text
		"java.security.krb5.conf", "zookeeper.ssl.protocol", "zookeeper.ssl.enabledProtocols", "zookeeper.ssl.ciphersuites",
		"zookeeper.sasl.clientconfig", "zookeeper.server.principal", "zookeeper.sasl.client.username",
	}
	checked := 0
	for name, key := range configKeys {
		if strings.HasSuffix(name, ".password") { // the client configuration itself contains the secret
			for _, mode := range []os.FileMode{0o600, 0o640, 0o604, 0o660} {
				config := filepath.Join(t.TempDir(), "client.properties")
				if err := os.WriteFile(config, []byte(on+name+"=changeit\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				checkMode(t, name, config, mode, Settings{ClientConfiguration: config})
			}
			continue
		}
		isIgnored := reflect.ValueOf(key.apply).Pointer() == reflect.ValueOf(ignored.apply).Pointer()
		if isIgnored || slices.Contains(notSecret, name) || key.apply(&effectiveSettings{}, "/any/text") != nil {
			continue
		}
		checked++
		c, is := files[name]
		if !is {
			t.Errorf("%s: decide whether its value is a secret, or a file with a secret", name)
			continue
		}
		config := filepath.Join(t.TempDir(), "client.properties")
		if err := os.WriteFile(config, []byte(c.others+name+"="+filepath.ToSlash(c.file)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o600} {
			checkMode(t, name, c.file, mode, Settings{ClientConfiguration: config})
		}
	}
	if checked != len(files) {
		t.Errorf("%d properties were checked, not %d", checked, len(files))
	}
}

// checkMode checks that the settings are accepted if file has the mode 0600, and rejected if it has
// another mode.
func checkMode(t *testing.T, name, file string, mode os.FileMode, s Settings) {
	t.Helper()
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	_, err := s.Load(environment(map[string]string{keyPasswordName: password, trustPasswordName: password}))
	want := fmt.Sprintf("is accessible to other users (mode %04o); run: chmod 600 %s", mode, file)
	if mode == 0o600 && err != nil || mode != 0o600 && (err == nil || !strings.HasSuffix(err.Error(), want)) {
		t.Errorf("%s, mode %04o: %v", name, mode, err)
	}
}

// A store whose private key everybody can use must be private. One that requires a password need not
// be.
func TestAccessToStores(t *testing.T) {
	for _, c := range []struct {
		files, password string
		private         bool
	}{
		{"key.pem cert.pem", "", true},
		{"key.pem cert.pem", password, true}, // the password has no effect
		{"ec.pem cert.pem", "", true},
		{"locked.pem cert.pem", password, false},
		{"key.p12", password, false},
		{"openssl.p12", password, false},
		{"key.jks", password, false},
	} {
		var data []byte
		for f := range strings.FieldsSeq(c.files) {
			data = append(data, fixture(t, f)...)
		}
		file := filepath.Join(t.TempDir(), "store")
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		s := store{file: file, password: c.password}
		_, err := s.identity("", environment(nil))
		_, trustErr := s.certificates(environment(nil))
		for _, err := range []error{err, trustErr} {
			if refused := err != nil && strings.Contains(err.Error(), "contains a private key without a password, but is accessible"); refused != c.private {
				t.Errorf("%s with password %q: %v", c.files, c.password, err)
			}
		}
		s.file = "testdata/cert.pem"
		if _, err := s.identity(file, environment(nil)); (err != nil) != c.private {
			t.Errorf("%s with password %q, as the key: %v", c.files, c.password, err)
		}
	}
}

// Every section of a JAAS file counts, and so do the passwords of a server.
func TestPasswordsInJAAS(t *testing.T) {
	for text, want := range map[string]bool{
		`Client { DigestLoginModule required username="a" password="b"; };`:                   true,
		`Client { DigestLoginModule required username=a password=b; };`:                       true,
		`Client { DigestLoginModule required username="a" password=""; };`:                    false,
		`Client { Krb5LoginModule required useTicketCache=true; }; Server { X r user_a=b; };`: true,
		`Client { Krb5LoginModule required useTicketCache=true principal="password"; };`:      false,
		`# password="b"` + "\n" + `Client { DigestLoginModule required username="a"; };`:      false,
	} {
		if got := hasPassword(text); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
