package secure

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
)

// entries are the contents of a key store or trust store.
type entries struct {
	key    crypto.PrivateKey // nil if the store has no key, or if the key is locked
	locked bool              // whether the store has a key that cannot be read, because its password is not set
	open   bool              // whether key can be read without a password, so that the file must be private
	// certificate chain of the key, with the key's own certificate first, except in PEM files
	chain   []*x509.Certificate
	trusted []*x509.Certificate
}

var (
	errPassword = errors.New("the password is wrong, or the file is damaged")
	errBCFKS    = errors.New("BCFKS stores (Bouncy Castle) are not supported; convert the store with: " +
		"keytool -importkeystore -srckeystore FILE -srcstoretype BCFKS" +
		" -providerclass org.bouncycastle.jcajce.provider.BouncyCastleFipsProvider -providerpath bc-fips.jar" +
		" -destkeystore FILE.p12 -deststoretype PKCS12")
	errJCEKS = errors.New("JCEKS stores are not supported; convert the store with: " +
		"keytool -importkeystore -srckeystore FILE -srcstoretype JCEKS" +
		" -destkeystore FILE.p12 -deststoretype PKCS12")
	errNoStore = errors.New("the file is not in PEM, PKCS12 or JKS format")
)

// readStore detects the format of a key store or trust store from its contents, and reads it.
func readStore(data []byte, password string) (entries, error) {
	switch {
	case bytes.HasPrefix(data, jksMagic):
		return readJKS(data, password)
	case bytes.HasPrefix(data, jceksMagic):
		return entries{}, errJCEKS
	case bytes.Contains(data, []byte("-----BEGIN ")):
		return readPEM(data, password)
	}
	if c, err := x509.ParseCertificate(data); err == nil {
		return entries{trusted: []*x509.Certificate{c}}, nil
	}
	var outer, first asn1.RawValue
	if _, err := asn1.Unmarshal(data, &outer); err != nil || outer.Tag != asn1.TagSequence {
		return entries{}, errNoStore
	}
	if _, err := asn1.Unmarshal(outer.Bytes, &first); err != nil {
		return entries{}, errNoStore
	}
	if first.Class == asn1.ClassUniversal && first.Tag == asn1.TagSequence {
		return entries{}, errBCFKS
	}
	return readPKCS12(data, password)
}

// readPEM reads the certificates and the first private key of a PEM file, in any order. The file
// may be a key store or a trust store, so readPEM adds each certificate to both lists, chain and
// trusted.
func readPEM(data []byte, password string) (entries, error) {
	var e entries
	for {
		var b *pem.Block
		if b, data = pem.Decode(data); b == nil {
			break
		}
		switch {
		case b.Type == "CERTIFICATE" || b.Type == "TRUSTED CERTIFICATE" || b.Type == "X509 CERTIFICATE":
			c, err := x509.ParseCertificate(b.Bytes)
			if err != nil {
				return e, fmt.Errorf("cannot read a certificate in the file: %w", err)
			}
			e.chain, e.trusted = append(e.chain, c), append(e.trusted, c)
		case e.key == nil:
			key, err := pemKey(b, password)
			if err != nil {
				return e, err
			}
			e.key, e.open = key, key != nil && b.Type != encryptedKey
		}
	}
	if e.key == nil && len(e.chain) == 0 {
		return e, errors.New("the file contains neither a certificate nor a key in PEM format")
	}
	return e, nil
}

// encryptedKey is the type of a PEM block with a private key that requires a password.
const encryptedKey = "ENCRYPTED PRIVATE KEY"

// pemKey returns the private key in a PEM block, or nil if the block contains something else.
func pemKey(b *pem.Block, password string) (key crypto.PrivateKey, err error) {
	switch {
	case b.Headers["DEK-Info"] != "":
		return nil, errors.New("the private key is encrypted in OpenSSL's legacy format, which is not supported; " +
			"convert the key with: openssl pkcs8 -topk8 -in FILE -out FILE.new")
	case b.Type == encryptedKey:
		der, err := decryptPKCS8(b.Bytes, password)
		if err != nil {
			return nil, err
		}
		key, err = x509.ParsePKCS8PrivateKey(der)
		if err != nil {
			return nil, errPassword // with a wrong password, the padding may be valid by chance
		}
		return key, nil
	case b.Type == "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
	case b.Type == "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(b.Bytes)
	case b.Type == "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(b.Bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the private key in the file: %w", err)
	}
	return key, nil
}

// explain adds the file name of the store to an error, and advice if the password is wrong or
// missing.
func (s store) explain(err error, password string) error {
	if !errors.Is(err, errPassword) {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	if password == "" {
		return fmt.Errorf("%s requires a password; set %s in the environment, or set the password in the client "+
			"configuration", s.file, s.env)
	}
	return fmt.Errorf("%s: %w; the password was read from %s", s.file, err, s.passwordSource())
}

// passwordSource describes where the password of the store came from.
func (s store) passwordSource() string {
	switch {
	case s.passwordFile != "":
		return s.passwordFile
	case s.password != "":
		return "the client configuration"
	}
	return "the environment variable " + s.env
}

// open reads the store. If it contains a private key that can be read without a password, other users
// must have no access to the file.
func (s store) open(password string) (entries, error) {
	f, err := readFile(s.file)
	if err != nil {
		return entries{}, err
	}
	e, err := readStore(f.Data, password)
	if err != nil {
		return entries{}, s.explain(err, password)
	}
	if e.open || e.key != nil && password == "" {
		err = f.CheckPrivate("a private key without a password")
	}
	return e, err
}

// certificates returns the certificates of the trusted authorities in a trust store.
func (s store) certificates(getenv func(string) string) ([]*x509.Certificate, error) {
	password, err := s.findPassword(getenv)
	if err != nil {
		return nil, err
	}
	e, err := s.open(password)
	if err == nil && len(e.trusted) == 0 {
		err = s.explain(errors.New("the file contains no certificate to trust"), password)
	}
	return e.trusted, err
}

// identity returns the client certificate with its chain and its private key. If keyFile is not
// empty, it reads the private key from that file.
func (s store) identity(keyFile string, getenv func(string) string) (*tls.Certificate, error) {
	password, err := s.findPassword(getenv)
	if err != nil {
		return nil, err
	}
	e, err := s.open(password)
	if err != nil {
		return nil, err
	}
	key := s
	if keyFile != "" {
		key.file = keyFile
		other, err := key.open(password)
		if err != nil {
			return nil, err
		}
		e.key = other.key
	}
	switch {
	case e.locked:
		return nil, s.explain(errPassword, "")
	case len(e.chain) == 0:
		return nil, s.explain(errors.New("the file contains no client certificate"), "")
	case e.key == nil:
		return nil, key.explain(errors.New("the file contains no private key; set the key file with --key"), "")
	}
	return keyPair(e, s.file)
}

// keyPair combines the private key with its certificate chain. It finds the certificate that
// belongs to the key, and puts it first.
func keyPair(e entries, file string) (*tls.Certificate, error) {
	signer, ok := e.key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: the private key is of a type that cannot sign", file)
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return nil, fmt.Errorf("%s: the private key is of an unknown type", file)
	}
	c := &tls.Certificate{PrivateKey: e.key}
	for _, cert := range e.chain {
		if c.Leaf == nil && public.Equal(cert.PublicKey) {
			c.Leaf = cert
			c.Certificate = append([][]byte{cert.Raw}, c.Certificate...)
		} else {
			c.Certificate = append(c.Certificate, cert.Raw)
		}
	}
	if c.Leaf == nil {
		return nil, fmt.Errorf("%s: the private key does not match the certificate", file)
	}
	return c, nil
}
