package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync/atomic"
)

// TLS is how to speak TLS with the servers of one ensemble. It may be used by many
// connections at a time.
type TLS struct {
	own      *tls.Certificate    // nil: none
	trusted  []*x509.Certificate // nil: the system's
	name     string              // of the server; empty: that of the connect string
	insecure bool
	anyName  bool
	min, max uint16
	suites   []uint16 // nil: those of crypto/tls
	allowed  []uint16 // nil: all
}

// The gaps in the verification of servers, as the prompt and --verbose show them.
const (
	notVerified     = "NOT VERIFIED"
	nameNotVerified = "NAME NOT VERIFIED" // any server whose certificate a trusted authority has signed is accepted
)

// Gap returns notVerified, nameNotVerified, or "" if servers are verified or there is no TLS.
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

// Conn is a connection with TLS. It words what ends it.
type Conn struct {
	*tls.Conn
	raw     net.Conn
	t       *TLS
	shown   atomic.Bool // the server has asked for a client certificate
	replied atomic.Bool // something has come that was encrypted
}

// Client makes a connection one with TLS and verifies the server, which has one of
// these names. An error has closed it, and is an *Error.
func (t *TLS) Client(ctx context.Context, raw net.Conn, names []string) (*Conn, error) {
	if t.name != "" {
		names = []string{t.name}
	}
	c := &Conn{raw: raw, t: t}
	cfg := &tls.Config{
		InsecureSkipVerify: true, // verify does it; see there
		VerifyConnection:   func(cs tls.ConnectionState) error { return t.verify(cs, names) },
		MinVersion:         t.min,
		MaxVersion:         t.max,
		CipherSuites:       t.suites,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			c.shown.Store(true)
			if t.own == nil {
				return new(tls.Certificate), nil
			}
			return t.own, nil
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

// Agreed tells what the handshake has come to.
func (c *Conn) Agreed() *Agreed { return newAgreed(c.ConnectionState(), c.t, c.shown.Load()) }

// Read is that of crypto/tls. With TLS 1.3 a server refuses the client's certificate
// only here.
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

// Close closes the connection at once. That of crypto/tls would wait for a peer that
// takes nothing; ZooKeeper's own protocol says when a session ends.
func (c *Conn) Close() error { return c.raw.Close() }
