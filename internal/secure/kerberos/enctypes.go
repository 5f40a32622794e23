package kerberos

import (
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
)

// encryption returns the encryption types that zksh accepts, best first: those in
// permitted_enctypes that it knows, or else all AES types. It accepts RC4 only with
// allow_weak_crypto. The library would offer RC4, and none of the types of RFC 8009.
func (c *krb5Conf) encryption() []int32 {
	usual := slices.Clone(aesTypes)
	if c.weak {
		usual = append(usual, etypeID.RC4_HMAC)
	}
	var list []int32
	for name := range strings.FieldsFuncSeq(strings.ToLower(c.types),
		func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		name, removes := strings.CutPrefix(name, "-")
		for _, t := range namedTypes(strings.TrimPrefix(name, "+"), usual) {
			list = slices.DeleteFunc(list, func(o int32) bool { return removes && o == t })
			if !removes && slices.Contains(usual, t) && !slices.Contains(list, t) {
				list = append(list, t)
			}
		}
	}
	if c.types == "" {
		return usual
	}
	return list
}

var aesTypes = []int32{etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA1_96,
	etypeID.AES256_CTS_HMAC_SHA384_192, etypeID.AES128_CTS_HMAC_SHA256_128}

// namedTypes returns the encryption types with the given name in lower case, or the types of a
// family. It knows the names in MIT's documentation of krb5.conf, section "Encryption types".
func namedTypes(name string, usual []int32) []int32 {
	switch name {
	case "default":
		return usual
	case "aes":
		return aesTypes
	case "aes256-cts-hmac-sha1-96", "aes256-cts", "aes256-sha1":
		return aesTypes[:1]
	case "aes128-cts-hmac-sha1-96", "aes128-cts", "aes128-sha1":
		return aesTypes[1:2]
	case "aes256-cts-hmac-sha384-192", "aes256-sha2":
		return aesTypes[2:3]
	case "aes128-cts-hmac-sha256-128", "aes128-sha2":
		return aesTypes[3:]
	case "rc4", "rc4-hmac", "arcfour-hmac", "arcfour-hmac-md5":
		return []int32{etypeID.RC4_HMAC}
	}
	return nil
}
