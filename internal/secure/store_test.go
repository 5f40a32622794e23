package secure

import (
	"encoding/asn1"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// keytool and openssl made the files in testdata, for one key of CN=fixture. Their password, if
// any, is changeit.
const password = "changeit"

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// private copies a fixture that contains a secret to a file that no other user can read, and returns
// its path. Everybody can read the fixtures themselves.
func private(t testing.TB, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, fixture(t, name), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// The format of a store is detected from its contents: none of these files has an extension.
func TestStores(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		files   string // files to concatenate
		key     bool
		trusted int
	}{
		{"key.p12", true, 1},
		{"key.jks", true, 1},
		{"openssl.p12", true, 1},
		{"trust.p12", false, 1},
		{"trust.jks", false, 1},
		{"cert.pem", false, 1},
		{"cert.der", false, 1},
		{"cert.pem key.pem", true, 1},
		{"key.pem cert.pem", true, 1},
		{"ec.pem cert.pem", true, 1},
		{"locked.pem cert.pem cert.pem", true, 2},
	} {
		var data []byte
		for f := range strings.FieldsSeq(c.files) {
			data = append(data, fixture(t, f)...)
		}
		file := filepath.Join(dir, "store")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s := store{file: file, password: password, env: keyPasswordName}
		trusted, err := s.certificates(environment(nil))
		if err != nil || len(trusted) != c.trusted || trusted[0].Subject.CommonName != "fixture" {
			t.Errorf("%s: trusts %d, %v", c.files, len(trusted), err)
		}
		id, err := s.identity("", environment(nil))
		if c.key != (err == nil) || c.key && (id.Leaf.Subject.CommonName != "fixture" || id.PrivateKey == nil) {
			t.Errorf("%s: identity %v, %v", c.files, id != nil, err)
		}
	}
}

func TestPasswords(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := environment(map[string]string{keyPasswordName: password})
	for _, s := range []store{
		{password: password},
		{passwordFile: file},
		{passwordFile: file, password: "of no account, as to Java"},
		{},
	} {
		s.file, s.env = "testdata/key.p12", keyPasswordName
		if _, err := s.identity("", env); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	// As in Java, the certificates of a JKS store can be read without a password.
	for _, file := range []string{"testdata/trust.jks", "testdata/key.jks"} {
		if trusted, err := (store{file: file}).certificates(environment(nil)); err != nil || len(trusted) != 1 {
			t.Errorf("%s: %d, %v", file, len(trusted), err)
		}
	}
}

// Errors about a store name the file and the remedy, and never show the password.
func TestBadStores(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	bcfks, err := asn1.Marshal(struct{ A, B struct{ N int } }{})
	if err != nil {
		t.Fatal(err)
	}
	jks := fixture(t, "key.jks")
	const wrong = "s3cr3t-but-wrong"
	for _, c := range []struct {
		file, key, password, want string
	}{
		{"testdata/nowhere", "", "", "the file testdata/nowhere does not exist"},
		{"testdata", "", "", "testdata is a directory"},
		{"testdata/key.p12", "", wrong, "testdata/key.p12: the password is wrong, or the file is damaged; the password was read from the client configuration"},
		{"testdata/key.jks", "", wrong, "testdata/key.jks: the password is wrong"},
		{"testdata/trust.p12", "", wrong, "the password is wrong"},
		{"testdata/key.p12", "", "", "testdata/key.p12 requires a password; set ZKSH_KEYSTORE_PASSWORD in the environment"},
		{"testdata/key.jks", "", "", "requires a password"},
		{"testdata/cert.pem", "testdata/locked.pem", wrong, "testdata/locked.pem: the password is wrong"},
		{"testdata/cert.pem", "testdata/locked.pem", "", "testdata/locked.pem requires a password"},
		{"testdata/cert.pem", "testdata/old.pem", password, "openssl pkcs8 -topk8"},
		{"testdata/cert.pem", "testdata/older.pem", password, "openssl pkcs8 -topk8"},
		{"testdata/cert.pem", "testdata/cert.pem", "", "testdata/cert.pem: the file contains no private key; set the key file with --key"},
		{"testdata/cert.pem", "", "", "contains no private key"},
		{private(t, "key.pem"), "", "", "contains no client certificate"},
		{"testdata/key.jceks", "", password, "keytool -importkeystore -srckeystore FILE -srcstoretype JCEKS"},
		{write("bcfks", bcfks), "", password, "keytool -importkeystore -srckeystore FILE -srcstoretype BCFKS"},
		{write("garbage", []byte("garbage")), "", "", "not in PEM, PKCS12 or JKS format"},
		{write("empty", nil), "", "", "not in PEM, PKCS12 or JKS format"},
		{write("cut", jks[:len(jks)/2]), "", password, "damaged"},
		{write("odd.pem", []byte("-----BEGIN NONSENSE-----\nAAAA\n-----END NONSENSE-----\n")), "", "", "contains neither a certificate nor a key in PEM"},
		{write("large", make([]byte, maxFile+1)), "", "", "is too large: the limit is 4194304 bytes"},
	} {
		s := store{file: c.file, password: c.password, env: keyPasswordName}
		_, err := s.identity(c.key, environment(nil))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), wrong) {
			t.Errorf("%s %s: %v", c.file, c.key, err)
		}
	}
}

// bomb returns the beginning of a store: a salt and a number of iterations.
func bomb(t testing.TB, rounds int) []byte {
	t.Helper()
	type mac struct {
		Digest, Salt []byte
		Rounds       int
	}
	b, err := asn1.Marshal(struct {
		Version int
		Mac     mac
	}{3, mac{[]byte("x"), []byte("salt"), rounds}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A file whose keys would take minutes to derive is rejected at once.
func TestIterationBombs(t *testing.T) {
	for _, name := range []string{"key.p12", "openssl.p12", "trust.p12"} {
		left := 2000 // keytool uses 10,000, openssl 2,048
		if err := boundRounds(fixture(t, name), &left, 0); err == nil {
			t.Errorf("%s: the rounds were not found", name)
		}
	}
	if _, err := readStore(bomb(t, 1<<40), password); err == nil || !strings.Contains(err.Error(), "iterations in total") {
		t.Errorf("%v", err)
	}
}
