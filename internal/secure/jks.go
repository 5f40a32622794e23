package secure

import (
	"crypto/sha1"
	"crypto/subtle"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
)

var (
	jksMagic   = []byte{0xfe, 0xed, 0xfe, 0xed}
	jceksMagic = []byte{0xce, 0xce, 0xce, 0xce}

	errTruncated = errors.New("the JKS store is truncated or damaged")
)

// The kinds of entries in a JKS store.
const (
	jksKey     = 1
	jksTrusted = 2
)

// A jksReader decodes a JKS store, which consists of big-endian numbers and of bytes that are
// preceded by their length.
type jksReader struct {
	rest      []byte
	truncated bool
}

func (r *jksReader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.truncated, r.rest = true, nil
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *jksReader) number(size uint64) uint64 {
	var b [8]byte
	copy(b[8-size:], r.take(size))
	return binary.BigEndian.Uint64(b[:])
}

func (r *jksReader) text() string { return string(r.take(r.number(2))) }

func (r *jksReader) certificate(version uint64) (*x509.Certificate, error) {
	kind := "X.509"
	if version == 2 {
		kind = r.text()
	}
	der := r.take(r.number(4))
	switch {
	case r.truncated:
		return nil, errTruncated
	case kind != "X.509":
		return nil, fmt.Errorf("the store contains a certificate of the unsupported type %q", kind)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cannot read a certificate in the store: %w", err)
	}
	return c, nil
}

// readJKS reads a store in Java's own format, JKS. If password is not empty, the digest at the
// end of the store must match. If it is empty, the contents are not verified, as in Java.
//
// github.com/pavlo-v-chernykh/keystore-go v4.5.0 does not replace it. It allocates the lengths that the
// file claims, up to 4 GiB, before it reads the data. It cannot read a store without its password. A
// damaged store gets the same error as a wrong password.
func readJKS(data []byte, password string) (entries, error) {
	if password != "" {
		body := data[:max(0, len(data)-sha1.Size)]
		h := sha1.New()
		h.Write(javaChars(password))
		h.Write([]byte("Mighty Aphrodite"))
		h.Write(body)
		if subtle.ConstantTimeCompare(h.Sum(nil), data[len(body):]) != 1 {
			return entries{}, errPassword
		}
	}
	r := &jksReader{rest: data[len(jksMagic):]}
	version, count := r.number(4), r.number(4)
	if version != 1 && version != 2 {
		return entries{}, fmt.Errorf("the store is in JKS version %d, which zksh does not support", version)
	}
	var e entries
	for ; count > 0 && !r.truncated; count-- {
		kind := r.number(4)
		r.text()    // skip the alias
		r.number(8) // skip the creation time
		if err := e.addJKS(r, kind, version, password); err != nil {
			return entries{}, err
		}
	}
	if r.truncated {
		return entries{}, errTruncated
	}
	return e, nil
}

// addJKS reads one entry of a JKS store. It ignores all keys except the first one.
func (e *entries) addJKS(r *jksReader, kind, version uint64, password string) error {
	switch kind {
	case jksTrusted:
		c, err := r.certificate(version)
		if err == nil {
			e.trusted = append(e.trusted, c)
		}
		return err
	case jksKey:
		locked := r.take(r.number(4))
		var chain []*x509.Certificate
		for n := r.number(4); n > 0 && !r.truncated; n-- {
			c, err := r.certificate(version)
			if err != nil {
				return err
			}
			chain = append(chain, c)
		}
		if r.truncated || len(chain) == 0 {
			return nil
		}
		e.trusted = append(e.trusted, chain[0])
		if e.locked = password == ""; e.locked || e.key != nil {
			return nil
		}
		der, err := unlockJKS(locked, password)
		if err != nil {
			return err
		}
		if e.key, err = x509.ParsePKCS8PrivateKey(der); err != nil {
			return fmt.Errorf("cannot read the private key in the store: %w", err)
		}
		e.chain = chain
		return nil
	}
	if r.truncated {
		return errTruncated
	}
	return fmt.Errorf("the store contains an entry of the unknown type %d", kind)
}

var oidJKSProtector = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 42, 2, 17, 1, 1}

// unlockJKS decrypts a key that was encrypted by sun.security.provider.KeyProtector. The data
// consists of a salt, the key XORed with a sequence of SHA-1 hashes, and a digest.
func unlockJKS(der []byte, password string) ([]byte, error) {
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	if _, err := asn1.Unmarshal(der, &info); err != nil {
		return nil, errTruncated
	}
	if !info.Algorithm.Algorithm.Equal(oidJKSProtector) {
		return nil, errors.New("the private key is protected in a way that JKS does not define")
	}
	n := len(info.Data) - 2*sha1.Size
	if n < 0 {
		return nil, errTruncated
	}
	chars := javaChars(password)
	digest := info.Data[:sha1.Size]
	key := make([]byte, n)
	for at := 0; at < n; at += sha1.Size {
		sum := sha1.Sum(append(chars[:len(chars):len(chars)], digest...))
		digest = sum[:]
		subtle.XORBytes(key[at:], info.Data[sha1.Size+at:sha1.Size+n], digest)
	}
	sum := sha1.Sum(append(chars[:len(chars):len(chars)], key...))
	if subtle.ConstantTimeCompare(sum[:], info.Data[sha1.Size+n:]) != 1 {
		return nil, errors.New("the private key and the store have different passwords, " +
			"which neither zksh nor ZooKeeper supports")
	}
	return key, nil
}

// javaChars encodes a password as an array of Java chars, two bytes each.
func javaChars(password string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(password)) {
		b = binary.BigEndian.AppendUint16(b, u)
	}
	return b
}
