//go:build unix

package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/internal/zktest"
)

// refusals calls use, which reads the file at path, while the file has each kind of access that is
// not safe. Each error must name the fault and the command that fixes it. denied contains modes that
// are not safe, and fix is the option of chmod that the error proposes for them.
func refusals(t *testing.T, name, path, fix string, denied []os.FileMode, use func() error) {
	t.Helper()
	accepted := func() {
		t.Helper()
		if err := use(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	accepted()
	for _, mode := range denied {
		zktest.Must(t, os.Chmod(path, mode))
		want := fmt.Sprintf(" other users (mode %04o); run: chmod %s %s", mode, fix, path)
		if err := use(); err == nil || !strings.HasSuffix(err.Error(), want) || !strings.Contains(err.Error(), path+" contains ") {
			t.Errorf("%s, mode %04o: %v", name, mode, err)
		}
	}
	zktest.Must(t, os.Chmod(path, 0o600))
	if os.Geteuid() == 0 { // only root can change the owner of a file
		zktest.Must(t, os.Chown(path, 65534, 65534))
		if err := use(); err == nil || !strings.HasSuffix(err.Error(), "but belongs to another user (uid 65534); run: chown 0 "+path) {
			t.Errorf("%s of another user: %v", name, err)
		}
		zktest.Must(t, os.Chown(path, 0, 0))
	}
	accepted()
}

// Modes with which other users can read or write a file, or only write it.
var (
	notPrivate = []os.FileMode{0o640, 0o604, 0o644, 0o660, 0o606, 0o666, 0o620, 0o602}
	notTrusted = []os.FileMode{0o660, 0o606, 0o666, 0o620, 0o602, 0o664}
)

// Every option and every key that names a file with a secret rejects the file if other users can read
// or write it, or if it belongs to another user. A new option or key fails this test until somebody
// has decided whether its file can contain a secret.
func TestFilesWithSecrets(t *testing.T) {
	dir := t.TempDir()
	ca, err := zktest.NewAuthority(dir, "ca")
	zktest.Must(t, err)
	identity, err := ca.Issue(zktest.Cert{Name: "ann"}) // the file contains the key and the certificates
	zktest.Must(t, err)
	pem, err := os.ReadFile(identity.File)
	zktest.Must(t, err)
	certificate := filepath.Join(dir, "certificate.pem")
	at := strings.Index(string(pem), "-----BEGIN CERTIFICATE")
	zktest.Must(t, os.WriteFile(certificate, pem[at:], 0o644)) // not secret

	withSecret := map[string]string{ // contents by option or key
		"auth-file":            "digest ann:sesame\n",
		"cacert":               string(pem),
		"cert":                 string(pem),
		"key":                  string(pem),
		"client-configuration": "zookeeper.client.secure=true\nzookeeper.ssl.keyStore.password=sesame\n",
		"jaas":                 `Client { o.DigestLoginModule required username="ann" password="sesame"; };`,
	}
	withoutSecret := []string{"file", "load", "trace", "undo"} // a script, a dump, and files that zksh writes
	check := func(name string, parseWith func(path string) error) {
		t.Helper()
		text, is := withSecret[name]
		if !is {
			t.Errorf("%s: decide whether its file can contain a secret", name)
			return
		}
		path := filepath.Join(t.TempDir(), "secret")
		zktest.Must(t, os.WriteFile(path, []byte(text), 0o600))
		refusals(t, name, path, "600", notPrivate, func() error { return parseWith(path) })
	}
	o := defaults()
	set, _ := declare(&o)
	set.VisitAll(func(f *pflag.Flag) {
		if commands.FlagParam(f).Kind != commands.File || slices.Contains(withoutSecret, f.Name) {
			return
		}
		check(f.Name, func(path string) error {
			args := []string{"--" + f.Name, path}
			if f.Name == "key" {
				args = append(args, "--cert", certificate)
			}
			_, err := parse(t, "", "", append(args, "ls", "/")...)
			return err
		})
	})
	for _, s := range settings {
		if s.value != "file" {
			continue
		}
		check(s.key, func(path string) error {
			lines := s.key + " = " + path + "\n"
			if s.key == "key" {
				lines += "cert = " + certificate + "\n"
			}
			_, err := parse(t, lines, "")
			_, inSection := parse(t, "[a]\nserver = h\n"+lines, "", "@a", "ls", "/")
			if fmt.Sprint(err) != fmt.Sprint(inSection) {
				t.Errorf("%s: %v, but in a section %v", s.key, err, inSection)
			}
			return err
		})
	}
	// Files without a secret can be readable by everybody.
	for name, text := range map[string]string{
		"cacert":               string(pem[at:]),
		"client-configuration": "zookeeper.client.secure=true\n",
		"jaas":                 "Client { com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true; };",
	} {
		path := filepath.Join(t.TempDir(), "open")
		zktest.Must(t, os.WriteFile(path, []byte(text), 0o644))
		if _, err := parse(t, "", "", "--"+name, path, "ls", "/"); err != nil {
			t.Errorf("--%s: %v", name, err)
		}
	}
}

// The configuration file is rejected if it contains a secret that other users can read, or if other
// users can change a command or decide where credentials go. A new key fails this test until somebody has decided whether its value
// is a secret.
func TestSecretsInConfiguration(t *testing.T) {
	type secret struct {
		value, fix string
		denied     []os.FileMode
	}
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "file")
		zktest.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	auth, properties := write("digest ann:sesame\n"), write("zookeeper.client.secure=true\n")
	jaas := write(`Client { o.DigestLoginModule required username="ann" password="sesame"; };`)
	secrets := map[string]secret{
		"proxy":        {"socks5://ann:sesame@h:1", "600", notPrivate},
		"auth-command": {"echo digest ann:sesame", "go-w", notTrusted},

		// Names of files with credentials, which zksh sends to the servers that the configuration names.
		"auth-file":            {auth, "go-w", notTrusted},
		"client-configuration": {properties, "go-w", notTrusted},
		"jaas":                 {jaas, "go-w", notTrusted},
	}
	plain := []string{"cacert", "cert", "key", "server", "timeout", "max-request", "tls", "tls-name", "kerberos", "writes", "colour", "output", "hints", "bell", "history"}
	for _, s := range settings {
		c, is := secrets[s.key]
		switch {
		case is != (s.access != nil):
			t.Errorf("%s: secret %t, but its access is checked: %t", s.key, is, s.access != nil)
		case !is && !slices.Contains(plain, s.key):
			t.Errorf("%s: decide whether its value is a secret", s.key)
		}
		if !is {
			continue
		}
		for _, config := range []string{s.key + " = " + c.value + "\n", "[a]\nserver = h\n" + s.key + " = " + c.value + "\n"} {
			dir := t.TempDir()
			path := filepath.Join(dir, "zksh", "config")
			zktest.Must(t, os.Mkdir(filepath.Dir(path), 0o700))
			zktest.Must(t, os.WriteFile(path, []byte(config), 0o600))
			refusals(t, s.key, path, c.fix, c.denied, func() error {
				_, err := ParseOptions([]string{"ls", "/"}, Environment{Getenv: func(string) string { return "" }, ConfigDir: dir})
				if err != nil && strings.Contains(err.Error(), "sesame") {
					t.Errorf("%s: the error contains the secret: %v", s.key, err)
				}
				return err
			})
		}
	}
	dir := t.TempDir()
	zktest.Must(t, os.Mkdir(filepath.Join(dir, "zksh"), 0o700))
	path := filepath.Join(dir, "zksh", "config")
	zktest.Must(t, os.WriteFile(path, []byte("server = h\nproxy = socks5://ann@h:1\n"), 0o600))
	zktest.Must(t, os.Chmod(path, 0o666))
	if _, err := ParseOptions([]string{"ls", "/"}, Environment{Getenv: func(string) string { return "" }, ConfigDir: dir}); err != nil {
		t.Errorf("a configuration without a secret: %v", err)
	}
}
