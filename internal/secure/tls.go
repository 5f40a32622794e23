package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync/atomic"
)

// TLS is the TLS configuration for the servers of one ensemble. It is safe for concurrent use.
type TLS struct {
	clientCert *tls.Certificate    // nil if there is none
	trusted    []*x509.Certificate // certificates of trusted authorities; nil to trust the system's authorities
	name       string              // expected server name; empty to expect the name in the connect string
	insecure   bool                // do not verify the server
	anyName    bool                // verify the certificate chain, but not the server's name
	min, max   uint16              // lowest and highest TLS version
	suites     []uint16            // offered suites below TLS 1.3; nil for crypto/tls's defaults
	allowed    []uint16            // cipher suites that verify accepts; nil if it accepts all
}

// Texts that the prompt, connect and a trace show if the verification of servers is incomplete.
const (
	notVerified     = "NOT VERIFIED"
	nameNotVerified = "NAME NOT VERIFIED" // any server with a certificate of a trusted authority is accepted
)

// Gap returns the text that warns about incomplete verification: notVerified or nameNotVerified. It
// returns an empty string if servers are fully verified or TLS is not used.
func (t *TLS) Gap() string {
	switch {
	case t == nil:
		return ""
	case t.insecure:
		return notVerified
	case t.anyName:
		return nameNotVerified
	}
	return ""
}

// A Conn is a TLS connection to a ZooKeeper server. It adds explanations to the errors that end
// the connection.
type Conn struct {
	*tls.Conn
	raw           net.Conn
	t             *TLS
	certRequested atomic.Bool // whether the server asked for a client certificate
	replied       atomic.Bool // whether the server sent data after the handshake
}

// Client starts TLS on a connection and verifies that the server's certificate is for one of the
// names. If this fails, Client closes the connection and returns an explanation, usually an
// *Error.
func (t *TLS) Client(ctx context.Context, raw net.Conn, names []string) (*Conn, error) {
	if t.name != "" {
		names = []string{t.name}
	}
	c := &Conn{raw: raw, t: t}
	cfg := &tls.Config{
		InsecureSkipVerify: true, // verify does the complete verification; see verify.go
		VerifyConnection:   func(cs tls.ConnectionState) error { return t.verify(cs, names) },
		MinVersion:         t.min,
		MaxVersion:         t.max,
		CipherSuites:       t.suites,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c.certRequested.Store(true)
			if t.clientCert == nil {
				return new(tls.Certificate), nil
			}
			return t.clientCert, nil
		},
	}
	if len(names) > 0 && net.ParseIP(names[0]) == nil {
		cfg.ServerName = names[0]
	}
	c.Conn = tls.Client(raw, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, c.explain(err)
	}
	return c, nil
}

// Agreed returns the parameters of the TLS connection, which are known after the handshake.
func (c *Conn) Agreed() *Agreed { return newAgreed(c.ConnectionState(), c.t, c.certRequested.Load()) }

// Read reads decrypted data. With TLS 1.3, if the server rejects the client certificate, the
// handshake still succeeds and the first Read fails.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.replied.Store(true)
	}
	if err != nil && !c.replied.Load() {
		err = c.explain(err)
	}
	return n, err
}

// Close closes the connection at once, without a closing TLS alert. tls.Conn.Close would wait
// for a server that reads nothing. The alert is not needed, because ZooKeeper's own protocol
// closes sessions.
func (c *Conn) Close() error { return c.raw.Close() }
