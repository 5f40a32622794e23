package secure

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// digests returns the values of the example in RFC 2831, section 4.
func TestDigests(t *testing.T) {
	s := &SASL{user: "chris", password: "secret"}
	response, proof := s.digests("elwood.innosoft.com", "OA6MG9tEQGm2hh", "OA6MHXh6VqTrRk", "imap/elwood.innosoft.com")
	if response != "d388dad90d4bbd760a152321f2143af7" || proof != "ea40f60335c427b5527b84dbabcdfffd" {
		t.Errorf("%s %s", response, proof)
	}
	if latin1("é") != "\xe9" || latin1("é中") != "é中" {
		t.Error("latin1")
	}
}

const challenge = `realm="zk-sasl-md5",nonce="abc\"d",charset=utf-8,algorithm=md5-sess,qop="auth,auth-int"`

// server returns a send function that answers as a ZooKeeper server with this user does.
func server(user, password string) func([]byte) ([]byte, error) {
	first := true
	return func(token []byte) ([]byte, error) {
		if first {
			first = false
			return []byte(challenge), nil
		}
		d := directives(string(token))
		response, proof := (&SASL{user: user, password: password}).digests(d["realm"], d["nonce"], d["cnonce"], d["digest-uri"])
		if d["username"] != user || d["response"] != response || d["nc"] != "00000001" {
			return nil, fmt.Errorf("%w: AuthFailed", ErrRefused)
		}
		return []byte("rspauth=" + proof), nil
	}
}

func TestAuthenticate(t *testing.T) {
	broken := errors.New("broken")
	says := func(answers ...any) func([]byte) ([]byte, error) {
		return func([]byte) ([]byte, error) {
			a := answers[0]
			answers = answers[1:]
			if err, ok := a.(error); ok {
				return nil, err
			}
			return []byte(a.(string)), nil
		}
	}
	for _, c := range []struct {
		send func([]byte) ([]byte, error)
		want string
	}{
		{server(`b"o\b`, "secret"), "<nil>"},
		{server(`b"o\b`, "other"), `the server rejected the SASL credentials of b\"o\\b`},
		{says(""), "it has no JAAS file with a Server section, or it runs in FIPS mode, which forbids this mechanism (the default since 3.10; "},
		{says(ErrRefused), "DIGEST-MD5: either it runs in FIPS mode, which forbids this mechanism (the default since 3.10; "},
		{says(ErrRefused), "it expects Kerberos; to use Kerberos, get a ticket with kinit"},
		{says("\x60\x01\x02"), "if it uses Kerberos, get a ticket with kinit"},
		{says(`nonce="x",algorithm=other`), "does not use the SASL mechanism DIGEST-MD5"},
		{says(`nonce="x",qop="auth-conf"`), "requires the SASL quality of protection auth-conf"},
		{says(challenge, "rspauth=0"), "did not prove"},
		{says(broken), "broken"},
		{says(challenge, broken), "broken"},
	} {
		err := (&SASL{user: `b"o\b`, password: "secret"}).digestMD5(c.send)
		if !strings.Contains(fmt.Sprint(err), c.want) || strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%v, want %s", err, c.want)
		}
		if is := errors.As(err, new(*Error)); is == (c.want == "broken" || err == nil) {
			t.Errorf("%v: final %t", err, is)
		}
	}
}

func TestJAAS(t *testing.T) {
	for text, want := range map[string]string{
		`Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="se cret"; };`:                                     "bob:se cret",
		"/* a\n */ // b\n# c\nServer { X required user_a=\"b\"; };\nClient {\n  DigestLoginModule\n required\n username='b\\'b'\n password=secret\n;\n}": "b'b:secret",
		`Client { DigestLoginModule required username="a" password="\"\\\t"; Other optional; };`:                                                         "a:\"\\\t",
		`Client { DigestLoginModule required username="a"; };`:                                                                                           "a:",
		`Client { com.sun.security.auth.module.Krb5LoginModule required renewTGT=true; };`:                                                               "sets neither useKeyTab=true nor useTicketCache=true",
		`Client { PlainLoginModule required; };`:                                                                                                         `uses the login module "PlainLoginModule"`,
		`Client { };`:                                                                                                                                    "section Client has no login module",
		`Client { DigestLoginModule required password="secret"; };`:                                                                                      "has no username",
		`Server { X required; };`:                                                                                                                        "no section Client, only Server; to use section Server, set zookeeper.sasl.clientconfig=Server in a client configuration; to connect without SASL, set zookeeper.sasl.client=false there",
		``:                                                                                                                                               "no section Client",
		`Client`:                                                                                                                                         "line 1: expected a section of the form NAME",
		"\n{":                                                                                                                                            "line 2: expected a section of the form NAME",
		`Client { X required`:                                                                                                                            "begins on line 1",
		`Client { X required a`:                                                                                                                          "begins on line 1",
		"Client {\nX required secret = ;}":                                                                                                               "line 2: the section that begins on line 1 must have the form",
		`Client { X "secret`:                                                                                                                             "line 1: a quotation mark is not closed",
		"\n/* secret":                                                                                                                                    "line 2: the comment is not closed",
	} {
		s, err := readJAAS(text, "Client")
		have := fmt.Sprint(err)
		if err == nil {
			have = s.options["username"] + ":" + s.options["password"]
		} else if strings.Contains(have, "secret") {
			t.Errorf("%s: %v", text, err)
		}
		if have != want && (err == nil || !strings.Contains(have, want)) {
			t.Errorf("%s: %q, want %q", text, have, want)
		}
	}
}
