package secure

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"

	"software.sslmate.com/src/go-pkcs12"
)

// readPKCS12 reads a PKCS #12 store that contains either a private key or trusted certificates.
// Package pkcs12 has one function for each kind of store, which rejects the other kind, so
// readPKCS12 tries both.
func readPKCS12(data []byte, password string) (entries, error) {
	work := maxRounds
	if err := boundRounds(data, &work, 0); err != nil {
		return entries{}, err
	}
	key, leaf, more, keyErr := pkcs12.DecodeChain(data, password)
	if keyErr == nil {
		return entries{key: key, chain: append([]*x509.Certificate{leaf}, more...),
			trusted: []*x509.Certificate{leaf}}, nil
	}
	if errors.Is(keyErr, pkcs12.ErrIncorrectPassword) || errors.Is(keyErr, pkcs12.ErrDecryption) {
		return entries{}, errPassword
	}
	trusted, err := pkcs12.DecodeTrustStore(data, password)
	if err != nil {
		return entries{}, fmt.Errorf("the store contains neither a readable private key (%w) nor readable trusted "+
			"certificates (%w)", keyErr, err)
	}
	return entries{trusted: trusted}, nil
}

// maxRounds is the maximum number of hash iterations that a file may require to derive all its
// keys. This many iterations take one or two seconds. keytool uses 10,000 for each key, and OpenSSL
// 2,048.
const maxRounds = 3_000_000

// maxDepth is the maximum nesting depth of the ASN.1 elements of a PKCS #12 or PKCS #8 file.
const maxDepth = 32

// boundRounds returns an error if it would take too long to derive the keys of a file. left points
// to the number of hash iterations that are still allowed. In the file, each number of iterations
// directly follows a salt, which is an octet string. So boundRounds counts every integer that
// directly follows an octet string.
func boundRounds(der []byte, left *int, depth int) error {
	if depth > maxDepth {
		return errors.New("the elements of the PKCS12 store are nested too deeply")
	}
	salt := false
	for len(der) > 0 {
		var v asn1.RawValue
		rest, err := asn1.Unmarshal(der, &v)
		if err != nil {
			return nil // not DER, so the data is encrypted, or invalid, which the caller's decoder reports
		}
		der = rest
		universal := v.Class == asn1.ClassUniversal
		if universal && v.Tag == asn1.TagInteger && salt {
			var n int
			if _, err := asn1.Unmarshal(v.FullBytes, &n); err != nil || n > *left {
				return fmt.Errorf("the iteration counts of the PKCS12 store are too high: "+
					"zksh accepts at most %d iterations in total to derive its keys", maxRounds)
			}
			*left -= max(n, 0)
		}
		salt = universal && v.Tag == asn1.TagOctetString
		if v.IsCompound || salt {
			if err := boundRounds(v.Bytes, left, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
