package app

import (
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// An auth-command can print each credential that a line of an auth-file can contain, also the one
// for Kerberos.
func TestAuthCommandForSASL(t *testing.T) {
	for line, want := range map[string]string{"sasl kerberos": "SASL with Kerberos", "sasl bob:pw": "SASL as bob"} {
		o, err := ParseOptions(nil, Environment{Getenv: func(string) string { return "" }})
		zktest.Must(t, err)
		o.AuthCommand = "echo " + line
		zktest.Must(t, o.Authenticate(zktest.Within(t)))
		if o.Secured.SASL == nil || o.Secured.SASL.String() != want {
			t.Errorf("%s: %v", line, o.Secured.SASL)
		}
	}
}
