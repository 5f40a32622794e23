// Package secure has what a connection needs to be let in: TLS with its key stores,
// zkCli's client configuration, and SASL.
package secure

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/userfile"
)

// Config is what one ensemble asks of its clients. The zero value is a plain
// connection.
type Config struct {
	TLS  *TLS  // nil: none
	SASL *SASL // nil: none

	MaxRequest int // jute.maxbuffer of the client configuration; 0: it has none

	// Remarks are for who gave the settings: what could not be taken as it stands,
	// and does not make the connection weaker.
	Remarks []string
}

// Settings are what a person says of an ensemble, in options or a configuration
// file. Names of files; empty: not given.
type Settings struct {
	TLS                 bool
	CACert              string // authorities: PEM, PKCS12 or JKS
	Cert                string // the own certificate, and perhaps its key
	Key                 string // the key, if that is in a file of its own
	Name                string // the server's, instead of that in the connect string
	Insecure            bool   // verify nothing
	ClientConfiguration string // zkCli's
	JAAS                string
}

// The environment's names of passwords, for stores that have none in their
// configuration.
const (
	keyPasswordName   = "ZKSH_KEYSTORE_PASSWORD"
	trustPasswordName = "ZKSH_TRUSTSTORE_PASSWORD"
)

// store is a file with keys or certificates.
type store struct {
	file         string
	password     string
	passwordFile string
	env          string // the environment's name of the password
}

// asked is what the settings come to.
type asked struct {
	tls        bool
	tlsKey     string // the first key of the client configuration that means nothing without TLS
	key, trust store
	keyFile    string // PEM, besides key
	name       string
	insecure   bool
	anyName    bool // verify the chain alone
	protocol   string
	protocols  []string
	suites     []string

	saslOff bool
	jaas    string // a file
	section string // of it
	fips    bool

	maxBuffer int
	source    string // the client configuration, for errors
}

// Load reads the files. An error names what is wrong and the way out, and never shows
// what is secret.
func (s Settings) Load(getenv func(string) string) (Config, error) {
	a := asked{key: store{env: keyPasswordName}, trust: store{env: trustPasswordName}, section: "Client"}
	var c Config
	if s.ClientConfiguration != "" {
		a.source = s.ClientConfiguration
		if err := a.readClientConfiguration(s.ClientConfiguration); err != nil {
			return c, err
		}
		c.MaxRequest = a.maxBuffer
		if !a.tls && a.tlsKey != "" && !s.wantsTLS() {
			return c, fmt.Errorf("%s sets %s, but not zookeeper.client.secure=true: add that property, or remove the TLS properties to connect without TLS",
				s.ClientConfiguration, a.tlsKey)
		}
	}
	a.override(s)
	if a.tls {
		var remark string
		var err error
		if c.TLS, remark, err = a.loadTLS(getenv); err != nil {
			return c, err
		}
		if remark != "" {
			c.Remarks = append(c.Remarks, remark)
		}
	}
	if a.jaas == "" || a.saslOff {
		return c, nil
	}
	var err error
	c.SASL, err = a.loadSASL()
	return c, err
}

func (s Settings) wantsTLS() bool {
	return s.TLS || s.Insecure || s.CACert+s.Cert+s.Key+s.Name != ""
}

// override lets options stand before the client configuration.
func (a *asked) override(s Settings) {
	a.tls = a.tls || s.wantsTLS()
	a.insecure = s.Insecure
	a.name, a.keyFile = s.Name, s.Key
	if s.CACert != "" {
		a.trust = store{file: s.CACert, env: trustPasswordName}
	}
	if s.Cert != "" {
		a.key = store{file: s.Cert, env: keyPasswordName}
	}
	a.jaas = cmp.Or(s.JAAS, a.jaas)
}

func (a *asked) loadTLS(getenv func(string) string) (t *TLS, remark string, err error) {
	t = &TLS{name: a.name, insecure: a.insecure, anyName: a.anyName}
	if t.min, t.max, err = a.versions(); err != nil {
		return nil, "", err
	}
	if remark, err = t.limit(a.suites); err != nil {
		return nil, "", err
	}
	if a.trust.file != "" {
		if t.trusted, err = a.trust.certificates(getenv); err != nil {
			return nil, "", fmt.Errorf("trusted certificates: %w", err)
		}
	}
	switch {
	case a.key.file != "":
		t.own, err = a.key.identity(a.keyFile, getenv)
	case a.keyFile != "":
		err = errors.New("--key requires --cert")
	}
	if err != nil {
		return nil, "", fmt.Errorf("client certificate: %w", err)
	}
	return t, remark, nil
}

func (a *asked) loadSASL() (*SASL, error) {
	if a.fips {
		return nil, fmt.Errorf("%s sets zookeeper.fips-mode=true, which forbids SASL DIGEST-MD5; to connect without SASL, set zookeeper.sasl.client=false", a.source)
	}
	text, err := readFile(a.jaas)
	if err != nil {
		return nil, fmt.Errorf("JAAS file: %w", err)
	}
	s, err := readJAAS(string(text), a.section)
	if err != nil {
		return nil, fmt.Errorf("JAAS file: %s: %w", a.jaas, err)
	}
	return s, nil
}

// maxFile bounds what is read of a file: a store with the world's authorities has
// some hundred KiB.
const maxFile = 4 << 20

func readFile(name string) ([]byte, error) {
	data, err := userfile.ReadSmallFile(name, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the file %s does not exist", name)
	}
	return data, err
}

// pass finds the store's password; none is empty.
func (s store) pass(getenv func(string) string) (string, error) {
	if s.passwordFile != "" {
		b, err := readFile(s.passwordFile)
		if err != nil {
			return "", fmt.Errorf("cannot read the store's password: %w", err)
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	}
	return cmp.Or(s.password, getenv(s.env)), nil
}

// read gives the store's bytes and its password.
func (s store) read(getenv func(string) string) ([]byte, string, error) {
	data, err := readFile(s.file)
	if err != nil {
		return nil, "", err
	}
	password, err := s.pass(getenv)
	return data, password, err
}

// warnBefore is how long before the end of a certificate's validity there is a
// warning.
const warnBefore = 14 * 24 * time.Hour

// Agreed is what a connection with TLS has come to.
type Agreed struct {
	Protocol string    `json:"protocol"`
	Cipher   string    `json:"cipher"`
	Peer     string    `json:"peer"`              // the subject of the server's certificate
	Until    time.Time `json:"until"`             // when that ends
	Verified bool      `json:"verified"`          // the certificate's chain; false with -tls-insecure
	AnyName  bool      `json:"anyName,omitempty"` // the certificate's name was not compared with the server's
	Own      string    `json:"own,omitempty"`
	OwnUntil time.Time `json:"ownUntil,omitzero"`
}

const day = "2006-01-02"

// String is a line for people.
func (a *Agreed) String() string {
	s := fmt.Sprintf("%s, %s; server certificate %s, valid until %s", a.Protocol, a.Cipher, a.Peer, a.Until.UTC().Format(day))
	switch {
	case !a.Verified:
		s += ", " + notVerified
	case a.AnyName:
		s += ", " + nameNotVerified
	}
	if a.Own != "" {
		s += fmt.Sprintf("; client certificate %s, valid until %s", a.Own, a.OwnUntil.UTC().Format(day))
	}
	return s
}

// Warnings tell of certificates that end soon.
func (a *Agreed) Warnings(now time.Time) (list []string) {
	warn := func(whose, name string, until time.Time) {
		switch left := until.Sub(now); {
		case left < 0:
			list = append(list, fmt.Sprintf("%s certificate, %s, expired on %s", whose, name, until.UTC().Format(day)))
		case left < warnBefore:
			list = append(list, fmt.Sprintf("%s certificate, %s, expires in %d days, on %s", whose, name, int(left.Hours()/24), until.UTC().Format(day)))
		}
	}
	warn("the server's", a.Peer, a.Until)
	if a.Own != "" {
		warn("the client's", a.Own, a.OwnUntil)
	}
	return list
}

func newAgreed(cs tls.ConnectionState, t *TLS, shown bool) *Agreed {
	a := &Agreed{Protocol: tls.VersionName(cs.Version), Cipher: tls.CipherSuiteName(cs.CipherSuite), Verified: !t.insecure, AnyName: t.anyName}
	if len(cs.PeerCertificates) > 0 {
		leaf := cs.PeerCertificates[0]
		a.Peer, a.Until = subject(leaf), leaf.NotAfter
	}
	if shown && t.own != nil {
		a.Own, a.OwnUntil = subject(t.own.Leaf), t.own.Leaf.NotAfter
	}
	return a
}
