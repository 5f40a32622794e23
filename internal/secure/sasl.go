package secure

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// SASL is who to be by the mechanism DIGEST-MD5 (RFC 2831).
type SASL struct{ user, password string }

// ParseSASL takes "user:password".
func ParseSASL(credential string) (*SASL, error) {
	user, password, ok := strings.Cut(credential, ":")
	if !ok || user == "" {
		return nil, errors.New("a credential of the sasl scheme must have the form USER:PASSWORD")
	}
	return &SASL{user, password}, nil
}

// String keeps the password out of whatever prints the value.
func (s *SASL) String() string { return "SASL as " + name(s.user) }

// GoString is String.
func (s *SASL) GoString() string { return s.String() }

// Authenticate answers the server's challenges. Each send carries a token there and
// brings the server's next. An error that send gives is passed on.
func (s *SASL) Authenticate(send func(token []byte) ([]byte, error)) error {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return err
	}
	challenge, err := send(nil)
	if err != nil {
		if errors.Is(err, ErrRefused) {
			return problem("the server rejected SASL DIGEST-MD5: either it runs in FIPS mode, which forbids this mechanism"+
				" (the default since 3.10; to allow it, set zookeeper.fips-mode=false on the server), or it expects Kerberos (GSSAPI), which zksh does not support", err)
		}
		return err
	}
	if len(challenge) == 0 {
		return problem("the server does not offer SASL DIGEST-MD5: either it has no JAAS file with a Server section,"+
			" or it runs in FIPS mode, which forbids this mechanism (the default since 3.10; to allow it, set zookeeper.fips-mode=false on the server)", nil)
	}
	answer, proof, err := s.respond(string(challenge), hex.EncodeToString(random[:]))
	if err != nil {
		return err
	}
	last, err := send([]byte(answer))
	switch {
	case errors.Is(err, ErrRefused):
		return problem("the server rejected the SASL credentials of "+name(s.user), err)
	case err != nil:
		return err
	case subtle.ConstantTimeCompare([]byte(directives(string(last))["rspauth"]), []byte(proof)) != 1:
		return problem("the server did not prove that it knows the SASL password", nil)
	}
	return nil
}

// ErrRefused is what send wraps when the server refuses a token.
var ErrRefused = errors.New("refused")

// respond makes the answer to a challenge, and what the server has to prove with.
func (s *SASL) respond(challenge, cnonce string) (answer, proof string, err error) {
	d := directives(challenge)
	nonce, realm := d["nonce"], d["realm"]
	switch {
	case nonce == "" || d["algorithm"] != "" && d["algorithm"] != "md5-sess":
		return "", "", problem("the server does not use the SASL mechanism DIGEST-MD5; zksh does not support Kerberos (GSSAPI)", nil)
	case d["qop"] != "" && !strings.Contains(","+strings.ReplaceAll(d["qop"], " ", "")+",", ",auth,"):
		return "", "", problem("the server requires the SASL quality of protection "+name(d["qop"])+", but zksh supports only auth", nil)
	}
	uri := "zookeeper/" + realm
	response, proof := s.digests(realm, nonce, cnonce, uri)
	answer = fmt.Sprintf(`charset=utf-8,username=%s,realm=%s,nonce=%s,nc=00000001,cnonce="%s",digest-uri=%s,maxbuf=65536,response=%s,qop=auth`,
		quote(s.user), quote(realm), quote(nonce), cnonce, quote(uri), response)
	return answer, proof, nil
}

// digests are what each side proves with that it knows the password.
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

// latin1 is how RFC 2831 has words hashed that have no other characters.
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

// directives reads name=value, the value perhaps quoted, with commas between. Of a
// name that comes twice the first counts.
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

// unquote reads up to the closing mark.
func unquote(s string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:]
		case '\\':
			i++
			if i == len(s) {
				return b.String(), ""
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}
