package secure

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/zksh/zksh/internal/peer"
	"github.com/zksh/zksh/internal/secure/kerberos"
)

// SASL holds the user name and password for the SASL mechanism DIGEST-MD5 (RFC 2831), or the
// source of the tickets for Kerberos.
type SASL struct {
	user, password string
	kerberos       *kerberos.Login // nil for DIGEST-MD5

	ticketCache bool // whether to use Kerberos with the ticket cache; Config.Use then sets kerberos
}

// Identity describes how Kerberos authenticated a connection.
type Identity = kerberos.Identity

// withKerberos is the credential that stands for Kerberos with the ticket cache.
const withKerberos = "kerberos"

// ParseSASL parses credentials in the form "user:password", or the word "kerberos".
func ParseSASL(credential string) (*SASL, error) {
	if credential == withKerberos {
		return &SASL{ticketCache: true}, nil
	}
	user, password, ok := strings.Cut(credential, ":")
	if !ok || user == "" {
		return nil, errors.New("a credential of the sasl scheme must have the form USER:PASSWORD, " +
			"or be the word kerberos")
	}
	return &SASL{user: user, password: password}, nil
}

// String returns only the user name, so that printing the value does not reveal the password.
func (s *SASL) String() string {
	if s.kerberos != nil {
		return "SASL with Kerberos"
	}
	return "SASL as " + peer.Printable(s.user)
}

// GoString returns the same as String.
func (s *SASL) GoString() string { return s.String() }

// Authenticate authenticates a connection, and verifies the server's proof of its identity. It
// calls send to send a token to the server and receive the server's next token. If send fails,
// Authenticate returns an error that wraps send's error. host is the server's name in the connect
// string, and ip its address. The Identity is nil with DIGEST-MD5.
func (s *SASL) Authenticate(ctx context.Context, host, ip string,
	send func(token []byte) ([]byte, error)) (*Identity, error) {
	if s.kerberos == nil {
		return nil, s.digestMD5(send)
	}
	var cut error // the error of a connection that ended
	id, err := s.kerberos.Authenticate(ctx, kerberos.Server{Host: host, IP: ip}, func(token []byte) ([]byte, error) {
		answer, err := send(token)
		if err != nil && !errors.Is(err, ErrRefused) {
			cut = err
		}
		return answer, err
	})
	switch {
	case cut != nil:
		return nil, cut
	case err == nil || errors.Is(err, kerberos.ErrRetry):
		return id, err
	}
	// The text can contain names that a KDC or a server has sent.
	return nil, problem(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, err.Error()), err)
}

// digestMD5 proves to the server that the client knows the password, and verifies the server's
// proof.
func (s *SASL) digestMD5(send func(token []byte) ([]byte, error)) error {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	challenge, err := send(nil)
	if err != nil {
		if errors.Is(err, ErrRefused) {
			return problem("the server rejected SASL DIGEST-MD5: either it runs in FIPS mode, "+
				"which forbids this mechanism (the default since 3.10; to allow it, "+
				"set zookeeper.fips-mode=false on the server), or it expects Kerberos; to use Kerberos, get a ticket with kinit and add --kerberos", err)
		}
		return err
	}
	if len(challenge) == 0 {
		return problem("the server does not offer SASL DIGEST-MD5: either it has no JAAS file with a Server section,"+
			" or it runs in FIPS mode, which forbids this mechanism (the default since 3.10; to allow it, "+
			"set zookeeper.fips-mode=false on the server)", nil)
	}
	answer, proof, err := s.respond(string(challenge), hex.EncodeToString(random[:]))
	if err != nil {
		return err
	}
	last, err := send([]byte(answer))
	switch {
	case errors.Is(err, ErrRefused):
		return problem("the server rejected the SASL credentials of "+peer.Printable(s.user), err)
	case err != nil:
		return err
	case subtle.ConstantTimeCompare([]byte(directives(string(last))["rspauth"]), []byte(proof)) != 1:
		return problem("the server did not prove that it knows the SASL password", nil)
	}
	return nil
}

// ErrRefused means that the server rejected a token. The function send of Authenticate then returns
// an error that wraps ErrRefused.
var ErrRefused = kerberos.ErrRefused

// respond returns the response to the server's challenge, and the proof that the server must then
// send in return.
func (s *SASL) respond(challenge, cnonce string) (answer, proof string, err error) {
	d := directives(challenge)
	nonce, realm := d["nonce"], d["realm"]
	switch {
	case nonce == "" || d["algorithm"] != "" && d["algorithm"] != "md5-sess":
		return "", "", problem("the server does not use the SASL mechanism DIGEST-MD5; if it uses Kerberos, "+
			"get a ticket with kinit and add --kerberos", nil)
	case d["qop"] != "" && !strings.Contains(","+strings.ReplaceAll(d["qop"], " ", "")+",", ",auth,"):
		return "", "", problem("the server requires the SASL quality of protection "+peer.Printable(d["qop"])+
			", but zksh supports only auth", nil)
	}
	uri := "zookeeper/" + realm
	response, proof := s.digests(realm, nonce, cnonce, uri)
	answer = fmt.Sprintf(`charset=utf-8,username=%s,realm=%s,nonce=%s,nc=00000001,cnonce="%s",digest-uri=%s,maxbuf=65536,response=%s,qop=auth`,
		quote(s.user), quote(realm), quote(nonce), cnonce, quote(uri), response)
	return answer, proof, nil
}

// digests returns the hashes with which the client and the server prove to each other that they
// know the password.
func (s *SASL) digests(realm, nonce, cnonce, uri string) (response, proof string) {
	start := md5.Sum([]byte(latin1(s.user) + ":" + latin1(realm) + ":" + latin1(s.password)))
	secret := hexMD5(string(start[:]) + ":" + nonce + ":" + cnonce)
	digest := func(a2 string) string {
		return hexMD5(strings.Join([]string{secret, nonce, "00000001", cnonce, "auth", hexMD5(a2)}, ":"))
	}
	return digest("AUTHENTICATE:" + uri), digest(":" + uri)
}

func hexMD5(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// latin1 encodes s in Latin-1 if possible; otherwise, it returns s unchanged, in UTF-8. RFC 2831
// requires this for the strings that are hashed.
func latin1(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > 0xff {
			return s
		}
		b.WriteByte(byte(r))
	}
	return b.String()
}

// directives parses a comma-separated list of name=value pairs. Values may be quoted. If a name
// occurs twice, the first value counts.
func directives(s string) map[string]string {
	d := map[string]string{}
	for s != "" {
		key, rest, ok := strings.Cut(s, "=")
		if !ok {
			return d
		}
		key = strings.ToLower(strings.Trim(key, ", \t"))
		var value string
		if strings.HasPrefix(rest, `"`) {
			value, rest = unquote(rest[1:])
		} else {
			value, rest, _ = strings.Cut(rest, ",")
		}
		if _, known := d[key]; !known {
			d[key] = strings.TrimSpace(value)
		}
		s = rest
	}
	return d
}

// unquote reads a quoted string up to the closing quotation mark, and returns the text after
// that mark as rest.
func unquote(text string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:]
		case '\\':
			i++
			if i == len(text) {
				return b.String(), ""
			}
		}
		b.WriteByte(text[i])
	}
	return b.String(), ""
}
