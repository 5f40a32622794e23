package secure

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"hash"
)

// decryptPKCS8 decrypts a PKCS #8 key that openssl or keytool encrypted (PBES2 with PBKDF2, RFC
// 8018).
//
// github.com/youmark/pkcs8 (July 2024) does not replace it. It runs as many rounds of PBKDF2 or scrypt
// as the file demands, so a hostile file can occupy the processor or the memory without limit. A
// damaged key gets the same error as a wrong password.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	left := maxRounds
	if err := boundRounds(der, &left, 0); err != nil {
		return nil, err
	}
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	var scheme struct{ KDF, Cipher pkix.AlgorithmIdentifier }
	var kdf struct {
		Salt   []byte
		Rounds int
		Length int                      `asn1:"optional"`
		PRF    pkix.AlgorithmIdentifier `asn1:"optional"`
	}
	var iv []byte
	if _, err := asn1.Unmarshal(der, &info); err != nil {
		return nil, errors.New("the encrypted private key is not valid PKCS #8")
	}
	if !info.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, errOldEncryption
	}
	if _, err := asn1.Unmarshal(info.Algorithm.Parameters.FullBytes, &scheme); err != nil {
		return nil, errOldEncryption
	}
	if !scheme.KDF.Algorithm.Equal(oidPBKDF2) {
		return nil, errOldEncryption
	}
	if _, err := asn1.Unmarshal(scheme.KDF.Parameters.FullBytes, &kdf); err != nil || kdf.Rounds < 1 {
		return nil, errOldEncryption
	}
	if _, err := asn1.Unmarshal(scheme.Cipher.Parameters.FullBytes, &iv); err != nil {
		return nil, errOldEncryption
	}
	kind, known := ciphers[scheme.Cipher.Algorithm.String()]
	prf := prfs[kdf.PRF.Algorithm.String()]
	if !known || prf == nil {
		return nil, errOldEncryption
	}
	if password == "" {
		return nil, errPassword
	}
	key, err := pbkdf2.Key(prf, password, kdf.Salt, kdf.Rounds, kind.key)
	if err != nil {
		return nil, err
	}
	block, err := kind.make(key)
	if err != nil {
		return nil, err
	}
	return decryptCBC(block, iv, info.Data)
}

func decryptCBC(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, errors.New("the encrypted private key is damaged")
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > size {
		return nil, errPassword
	}
	for _, b := range plain[len(plain)-padding:] {
		if int(b) != padding {
			return nil, errPassword
		}
	}
	return plain[:len(plain)-padding], nil
}

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}

	errOldEncryption = errors.New("the private key is encrypted in a way that zksh does not support; " +
		"convert the key with: openssl pkcs8 -topk8 -in FILE -out FILE.new")
)

// ciphers maps ASN.1 object identifiers to block ciphers.
var ciphers = map[string]struct {
	key  int // length of the key, in bytes
	make func(key []byte) (cipher.Block, error)
}{
	"2.16.840.1.101.3.4.1.2":  {16, aes.NewCipher},
	"2.16.840.1.101.3.4.1.22": {24, aes.NewCipher},
	"2.16.840.1.101.3.4.1.42": {32, aes.NewCipher},
	"1.2.840.113549.3.7":      {24, des.NewTripleDESCipher},
}

// prfs maps ASN.1 object identifiers to the hash functions for PBKDF2.
var prfs = map[string]func() hash.Hash{
	"":                    sha1.New, // the default if the file does not name a hash function
	"1.2.840.113549.2.7":  sha1.New,
	"1.2.840.113549.2.9":  sha256.New,
	"1.2.840.113549.2.10": sha512.New384,
	"1.2.840.113549.2.11": sha512.New,
}
