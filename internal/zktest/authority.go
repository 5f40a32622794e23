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

// Authority signs certificates, as PEM files below a directory.
type Authority struct {
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	issued atomic.Int64
	File   string // its own certificate
}

// Cert is what an Authority certifies.
type Cert struct {
	Name  string // the common name
	DNS   []string
	IPs   []net.IP
	From  time.Time // zero: an hour ago
	Until time.Time // zero: in a year
}

// Issued is a certificate with its key.
type Issued struct {
	tls.Certificate
	File string // the key, the certificate, and that of the authority
}

// NewAuthority makes one whose files are in dir.
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

// Issue makes a key and its certificate.
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
	text := append(block("PRIVATE KEY", secret), append(block("CERTIFICATE", der), block("CERTIFICATE", a.cert.Raw)...)...)
	i := &Issued{tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf},
		filepath.Join(a.dir, a.cert.Subject.CommonName+"-"+big.NewInt(a.issued.Add(1)).String()+".pem")}
	return i, os.WriteFile(i.File, text, 0o600)
}

// Pool has the authority alone.
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

// sign is by the key of the parent, or by the certificate's own.
func sign(t, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if t.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62)); err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, by = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, key.Public(), by)
	return der, key, err
}

func block(kind string, der []byte) []byte {
	var b strings.Builder
	if err := pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}); err != nil {
		panic(err) // writing to memory
	}
	return []byte(b.String())
}
