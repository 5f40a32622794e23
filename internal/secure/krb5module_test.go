package secure

import (
	"os"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/secure/kerberos"
	"github.com/zksh/zksh/internal/zktest"
)

func TestExpandProperties(t *testing.T) {
	home, err := os.UserHomeDir()
	zktest.Must(t, err)
	getenv := func(name string) string { return map[string]string{"KEYS": "/keys", "USER": "ann"}[name] }
	for value, want := range map[string]string{
		"/a/b":                           "/a/b",
		"${KEYS}${/}a${file.separator}b": "/keys" + string(os.PathSeparator) + "a" + string(os.PathSeparator) + "b",
		"${user.home}/x":                 home + "/x",
		"${user.name}@A":                 "ann@A",
		"$HOME ${":                       "$HOME ${",
	} {
		if got, err := expandProperties(value, getenv); err != nil || got != want {
			t.Errorf("%s: %s, %v", value, got, err)
		}
	}
	if _, err := expandProperties("${none}", getenv); err == nil || !strings.Contains(err.Error(), "does not know the property ${none}") {
		t.Error(err)
	}
}

// The ticket cache, if asked for, takes precedence over a JAAS file, and over
// zookeeper.sasl.client=false. A JAAS file for Kerberos is also allowed in FIPS mode.
func TestKerberosSettings(t *testing.T) {
	jaas := t.TempDir() + "/client.jaas"
	zktest.Must(t, os.WriteFile(jaas, []byte("Client { com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true; };"), 0o600))
	for _, c := range []struct {
		config   string
		s        Settings
		kerberos bool
	}{
		{"", Settings{Kerberos: true}, true},
		{"", Settings{Kerberos: true, JAAS: "nowhere"}, true},
		{"zookeeper.sasl.client=false", Settings{Kerberos: true}, true},
		{"zookeeper.sasl.client=false", Settings{JAAS: jaas}, false},
		{"zookeeper.fips-mode=true\njava.security.auth.login.config=" + jaas, Settings{}, true},
	} {
		got, err := load(t, c.config, c.s)
		if err != nil || (got.SASL != nil && got.SASL.kerberos != nil) != c.kerberos {
			t.Errorf("%q %+v: %v, %v", c.config, c.s, got.SASL, err)
		}
	}
	s, err := ParseSASL("kerberos")
	zktest.Must(t, err)
	var c Config
	if c.Use(s, os.Getenv); c.SASL.kerberos == nil || c.SASL.String() != "SASL with Kerberos" {
		t.Error(c.SASL)
	}
}

// An empty option does not stand for another keytab, cache or principal.
func TestEmptyKerberosOptions(t *testing.T) {
	for _, option := range []string{"keyTab", "ticketCache", "principal"} {
		m := &module{options: map[string]string{"useKeyTab": "true", option: ""}}
		if _, err := m.kerberos(kerberos.Options{}, os.Getenv); err == nil || !strings.Contains(err.Error(), "the value of "+option+" is empty") {
			t.Errorf("%s: %v", option, err)
		}
	}
}
