package secure

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/zksh/zksh/internal/secure/kerberos"
)

// isKerberos reports whether the module is the one of Java for Kerberos:
//
//	com.sun.security.auth.module.Krb5LoginModule required
//	useKeyTab=true keyTab="/etc/alice.keytab" principal="alice@EXAMPLE.COM";
func (m *module) isKerberos() bool { return strings.HasSuffix(m.class, "Krb5LoginModule") }

// is reports whether an option is true. Java ignores the case.
func (m *module) is(option string) bool { return strings.EqualFold(m.options[option], "true") }

// kerberos adds the options of the module to opt. The options doNotPrompt, storeKey, renewTGT,
// refreshKrb5Config and debug have no effect: zksh never asks for a password.
func (m *module) kerberos(opt kerberos.Options, getenv func(string) string) (kerberos.Options, error) {
	opt.UseCache, opt.UseKeytab = m.is("useTicketCache"), m.is("useKeyTab")
	for option, to := range map[string]*string{"principal": &opt.Principal, "keyTab": &opt.Keytab,
		"ticketCache": &opt.Cache} {
		value, given := m.options[option]
		if given && value == "" {
			return opt, fmt.Errorf("the value of %s is empty; give it a value, or leave %[1]s out", option)
		}
		var err error
		if *to, err = expandProperties(value, getenv); err != nil {
			return opt, fmt.Errorf("%s: %w", option, err)
		}
	}
	return opt, nil
}

// javaProperty matches ${NAME}. It is compiled at its first use, so that zksh starts faster.
var javaProperty = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{[^}]*\}`) })

// expandProperties replaces ${NAME} in a value of a JAAS file, as Java does. NAME is a property of
// Java that zksh knows, or an environment variable.
func expandProperties(value string, getenv func(string) string) (string, error) {
	var unknown error
	value = javaProperty().ReplaceAllStringFunc(value, func(p string) string {
		switch name := p[2 : len(p)-1]; name {
		case "/", "file.separator":
			return string(os.PathSeparator)
		case "user.home":
			if home, err := os.UserHomeDir(); err == nil {
				return home
			}
		case "user.name":
			if user := cmp.Or(getenv("USER"), getenv("USERNAME")); user != "" { // USERNAME is that of Windows
				return user
			}
		default:
			if v := getenv(name); v != "" {
				return v
			}
		}
		unknown = fmt.Errorf("zksh does not know the property %s; write its value instead, "+
			"or set an environment variable with this name", p)
		return ""
	})
	return value, unknown
}
