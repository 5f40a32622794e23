package zktest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// An Authority is a certificate authority for tests. It stores the certificates that it issues as
// PEM files in a directory.
type Authority struct {
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	issued atomic.Int64
	File   string // path of the PEM file with the authority's certificate
}

// A Cert describes a certificate for Authority.Issue to create.
type Cert struct {
	Name  string // common name of the subject
	DNS   []string
	IPs   []net.IP
	From  time.Time // beginning of the validity; the zero time means an hour ago
	Until time.Time // end of the validity; the zero time means a year from now
}

// An Issued is a certificate that an Authority has issued, together with its private key.
type Issued struct {
	tls.Certificate
	// File is the path of the PEM file that contains the key, the certificate and the authority's
	// certificate.
	File string
}

// NewAuthority creates a certificate authority with the given common name. It stores its PEM
// files in the directory dir.
func NewAuthority(dir, name string) (*Authority, error) {
	a := &Authority{dir: dir}
	own := Cert{Name: name}.template()
	own.IsCA, own.BasicConstraintsValid, own.KeyUsage = true, true, x509.KeyUsageCertSign
	der, key, err := sign(own, nil, nil)
	if err != nil {
		return nil, err
	}
	a.key = key
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	a.File = filepath.Join(dir, name+".pem")
	return a, os.WriteFile(a.File, block("CERTIFICATE", der), 0o600)
}

// Issue creates a private key and a certificate for it. It stores both in a PEM file.
func (a *Authority) Issue(c Cert) (*Issued, error) {
	der, key, err := sign(c.template(), a.cert, a.key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	chain := append(block("CERTIFICATE", der), block("CERTIFICATE", a.cert.Raw)...)
	text := append(block("PRIVATE KEY", secret), chain...)
	i := &Issued{tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf},
		filepath.Join(a.dir, a.cert.Subject.CommonName+"-"+big.NewInt(a.issued.Add(1)).String()+".pem")}
	return i, os.WriteFile(i.File, text, 0o600)
}

// Pool returns a certificate pool that contains only the authority's certificate.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func (c Cert) template() *x509.Certificate {
	now := time.Now()
	t := &x509.Certificate{
		Subject: pkix.Name{CommonName: c.Name}, DNSNames: c.DNS, IPAddresses: c.IPs,
		NotBefore: c.From, NotAfter: c.Until, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if c.From.IsZero() {
		t.NotBefore = now.Add(-time.Hour)
	}
	if c.Until.IsZero() {
		t.NotAfter = now.AddDate(1, 0, 0)
	}
	return t
}

// sign creates a private key, and a certificate for it from the template t. If parent is nil, the
// certificate is self-signed; otherwise, parentKey signs it. sign returns the certificate in DER
// format.
func sign(t, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, parentKey = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), parentKey)
	return der, key, err
}

func block(kind string, der []byte) []byte {
	var b strings.Builder
	if err := pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}); err != nil {
		panic(err) // cannot happen, because it writes to memory
	}
	return []byte(b.String())
}
