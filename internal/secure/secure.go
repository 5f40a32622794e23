// Package secure protects zksh's connections to ZooKeeper: TLS with key stores and trust stores,
// zkCli's client configuration, JAAS files, and authentication with SASL: DIGEST-MD5 and Kerberos.
//
// Settings.Load reads the files and returns a Config. TLS.Client makes a TLS connection and
// verifies the server, and SASL.Authenticate authenticates a session. Problems are reported as
// *Error, with advice. Start reading at Settings.Load.
package secure

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/secure/kerberos"
	"github.com/zksh/zksh/internal/userfile"
)

// Config contains the security settings for connections to one ensemble. The zero value means
// plain connections without authentication.
type Config struct {
	TLS  *TLS  // nil for a connection without TLS
	SASL *SASL // nil for a session without SASL

	MaxRequest int // jute.maxbuffer in the client configuration, in bytes; 0 if not set

	kerberos kerberos.Options // settings for Kerberos, except where tickets come from

	// Remarks are messages for the user about settings that could not be applied exactly.
	// They never mean that the connection is less secure.
	Remarks []string
}

// Settings are the user's security settings for an ensemble, from options or a configuration
// file. All strings except Name are file names. An empty string means that the setting is not
// set.
type Settings struct {
	TLS                 bool
	CACert              string // certificates of trusted authorities: PEM, PKCS12 or JKS
	Cert                string // client certificate; the file may also contain its key
	Key                 string // private key of Cert, if it is in another file
	Name                string // server name to expect, instead of the one in the connect string
	Insecure            bool   // do not verify the server
	ClientConfiguration string // properties file in the format of zkCli's -client-configuration
	JAAS                string
	Kerberos            bool // authenticate with the ticket cache of Kerberos; takes precedence over JAAS
}

// Environment variables for the passwords of key stores and trust stores. They are used if the
// client configuration contains no password.
const (
	keyPasswordName   = "ZKSH_KEYSTORE_PASSWORD"
	trustPasswordName = "ZKSH_TRUSTSTORE_PASSWORD"
)

// A store is a file with keys or certificates.
type store struct {
	file         string
	password     string
	passwordFile string
	env          string // name of the environment variable with the password
}

// effectiveSettings is the user's Settings combined with the client configuration.
type effectiveSettings struct {
	tls        bool
	tlsKey     string // first property in the client configuration that is useful only with TLS; empty if none
	key, trust store
	keyFile    string // PEM file with the private key, if the key is not in the key store
	name       string
	insecure   bool
	anyName    bool // verify the certificate chain, but not the server's name
	protocol   string
	protocols  []string
	suites     []string

	saslOff bool
	jaas    string // path of the JAAS file
	section string // section of the JAAS file
	fips    bool   // whether FIPS mode is on, which forbids DIGEST-MD5

	kerberos kerberos.Options // the part of a client configuration that concerns Kerberos

	maxBuffer int
	secret    bool   // whether the client configuration contains a password
	source    string // file name of the client configuration, for error messages
}

// Load reads the files that the settings name. Its errors say what is wrong and how to fix it,
// and never contain secrets.
func (s Settings) Load(getenv func(string) string) (Config, error) {
	a := effectiveSettings{key: store{env: keyPasswordName}, trust: store{env: trustPasswordName}, section: "Client"}
	var c Config
	if s.ClientConfiguration != "" {
		a.source = s.ClientConfiguration
		if err := a.readClientConfiguration(s.ClientConfiguration); err != nil {
			return c, err
		}
		c.MaxRequest = a.maxBuffer
		if !a.tls && a.tlsKey != "" && !s.wantsTLS() {
			return c, fmt.Errorf("%s sets %s, but not zookeeper.client.secure=true: add that property, "+
				"or remove the TLS properties to connect without TLS",
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
	c.kerberos = a.kerberos
	switch {
	case s.Kerberos:
		c.Use(&SASL{ticketCache: true}, getenv)
		return c, nil
	case a.jaas == "" || a.saslOff:
		return c, nil
	}
	var err error
	c.SASL, err = a.loadSASL(getenv)
	return c, err
}

// Use sets SASL to s, which ParseSASL has returned.
func (c *Config) Use(s *SASL, getenv func(string) string) {
	if s.ticketCache {
		opt := c.kerberos
		opt.UseCache = true
		s = &SASL{kerberos: kerberos.New(opt, getenv)}
	}
	c.SASL = s
}

func (s Settings) wantsTLS() bool {
	return s.TLS || s.Insecure || s.CACert+s.Cert+s.Key+s.Name != ""
}

// override applies the user's settings, which take precedence over the client configuration.
func (a *effectiveSettings) override(s Settings) {
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

func (a *effectiveSettings) loadTLS(getenv func(string) string) (t *TLS, remark string, err error) {
	t = &TLS{name: a.name, insecure: a.insecure, anyName: a.anyName}
	if t.min, t.max, err = a.versions(); err != nil {
		return nil, "", err
	}
	if remark, err = t.restrictSuites(a.suites); err != nil {
		return nil, "", err
	}
	if a.trust.file != "" {
		if t.trusted, err = a.trust.certificates(getenv); err != nil {
			return nil, "", fmt.Errorf("trusted certificates: %w", err)
		}
	}
	switch {
	case a.key.file != "":
		t.clientCert, err = a.key.identity(a.keyFile, getenv)
	case a.keyFile != "":
		err = errors.New("--key requires --cert")
	}
	if err != nil {
		return nil, "", fmt.Errorf("client certificate: %w", err)
	}
	return t, remark, nil
}

func (a *effectiveSettings) loadSASL(getenv func(string) string) (*SASL, error) {
	f, err := readFile(a.jaas)
	if err != nil {
		return nil, fmt.Errorf("JAAS file: %w", err)
	}
	m, err := readJAAS(string(f.Data), a.section)
	if err != nil {
		return nil, fmt.Errorf("JAAS file: %s: %w", a.jaas, err)
	}
	if hasPassword(string(f.Data)) {
		if err := f.CheckPrivate(aPassword); err != nil {
			return nil, fmt.Errorf("JAAS file: %w", err)
		}
	}
	if m.isKerberos() {
		opt, err := m.kerberos(a.kerberos, getenv)
		if err != nil {
			return nil, fmt.Errorf("JAAS file: %s: section %s: %w", a.jaas, a.section, err)
		}
		return &SASL{kerberos: kerberos.New(opt, getenv)}, nil
	}
	if a.fips {
		return nil, fmt.Errorf("%s sets zookeeper.fips-mode=true, which forbids SASL DIGEST-MD5; "+
			"to connect without SASL, set zookeeper.sasl.client=false", a.source)
	}
	return &SASL{user: m.options["username"], password: m.options["password"]}, nil
}

// maxFile is the maximum size of a store or configuration file, in bytes. A store with the
// certificates of all public authorities has a few hundred KiB.
const maxFile = 4 << 20

// aPassword describes the contents of a file, for the error if other users can read it.
const aPassword = "a password"

func readFile(name string) (*userfile.File, error) {
	f, err := userfile.ReadFile(name, maxFile)
	return f, explainMissing(name, err)
}

// explainMissing returns err, or an error that says in zksh's words that a file does not exist.
func explainMissing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the file %s does not exist", name)
	}
	return err
}

// findPassword returns the store's password, or an empty string if there is none.
func (s store) findPassword(getenv func(string) string) (string, error) {
	if s.passwordFile != "" {
		b, err := userfile.ReadPrivate(s.passwordFile, maxFile, aPassword)
		if err != nil {
			return "", fmt.Errorf("cannot read the store's password: %w", explainMissing(s.passwordFile, err))
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	}
	return cmp.Or(s.password, getenv(s.env)), nil
}

// warnBefore is the time before the expiry of a certificate at which zksh begins to warn.
const warnBefore = 14 * 24 * time.Hour

// Agreed describes an established TLS connection: the parameters that client and server agreed
// on, and their certificates.
type Agreed struct {
	Protocol string    `json:"protocol"`
	Cipher   string    `json:"cipher"`
	Peer     string    `json:"peer"`              // subject of the server's certificate
	Until    time.Time `json:"until"`             // end of the validity of the server's certificate
	Verified bool      `json:"verified"`          // whether the certificate chain was verified; false with --tls-insecure
	AnyName  bool      `json:"anyName,omitempty"` // whether the server's name was not verified
	Own      string    `json:"own,omitempty"`     // subject of the client certificate; empty if none was sent
	OwnUntil time.Time `json:"ownUntil,omitzero"`
}

const day = "2006-01-02"

// String returns a description of the connection for the user, on one line.
func (a *Agreed) String() string {
	s := fmt.Sprintf("%s, %s; server certificate %s, valid until %s", a.Protocol, a.Cipher, a.Peer,
		a.Until.UTC().Format(day))
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

// Warnings returns a warning for each certificate that has expired or will expire soon.
func (a *Agreed) Warnings(now time.Time) (list []string) {
	warn := func(whose, name string, until time.Time) {
		switch left := until.Sub(now); {
		case left < 0:
			list = append(list, fmt.Sprintf("%s certificate, %s, expired on %s", whose, name, until.UTC().Format(day)))
		case left < warnBefore:
			list = append(list, fmt.Sprintf("%s certificate, %s, expires in %d days, on %s", whose, name,
				int(left.Hours()/24), until.UTC().Format(day)))
		}
	}
	warn("the server's", a.Peer, a.Until)
	if a.Own != "" {
		warn("the client's", a.Own, a.OwnUntil)
	}
	return list
}

func newAgreed(cs tls.ConnectionState, t *TLS, shown bool) *Agreed {
	a := &Agreed{Protocol: tls.VersionName(cs.Version), Cipher: tls.CipherSuiteName(cs.CipherSuite),
		Verified: !t.insecure, AnyName: t.anyName}
	if len(cs.PeerCertificates) > 0 {
		leaf := cs.PeerCertificates[0]
		a.Peer, a.Until = subject(leaf), leaf.NotAfter
	}
	if shown && t.clientCert != nil {
		a.Own, a.OwnUntil = subject(t.clientCert.Leaf), t.clientCert.Leaf.NotAfter
	}
	return a
}
