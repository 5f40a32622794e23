package secure

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// keys are the properties of zkCli and, where Kafka spells them otherwise, Kafka's.
var keys = map[string]func(a *asked, v string) error{
	"zookeeper.client.secure":                       func(a *asked, v string) error { return readBool(v, &a.tls) },
	"zookeeper.ssl.keyStore.location":               func(a *asked, v string) error { a.key.file = v; return nil },
	"zookeeper.ssl.keyStore.password":               func(a *asked, v string) error { a.key.password = v; return nil },
	"zookeeper.ssl.keyStore.passwordPath":           func(a *asked, v string) error { a.key.passwordFile = v; return nil },
	"zookeeper.ssl.keyStore.type":                   storeType,
	"zookeeper.ssl.trustStore.location":             func(a *asked, v string) error { a.trust.file = v; return nil },
	"zookeeper.ssl.trustStore.password":             func(a *asked, v string) error { a.trust.password = v; return nil },
	"zookeeper.ssl.trustStore.passwordPath":         func(a *asked, v string) error { a.trust.passwordFile = v; return nil },
	"zookeeper.ssl.trustStore.type":                 storeType,
	"zookeeper.ssl.hostnameVerification":            func(a *asked, v string) error { return readNegated(v, &a.anyName) },
	"zookeeper.ssl.protocol":                        func(a *asked, v string) error { a.protocol = v; return nil },
	"zookeeper.ssl.enabledProtocols":                func(a *asked, v string) error { a.protocols = list(v); return nil },
	"zookeeper.ssl.ciphersuites":                    func(a *asked, v string) error { a.suites = list(v); return nil },
	"zookeeper.ssl.crl":                             revocation,
	"zookeeper.ssl.ocsp":                            revocation,
	"zookeeper.ssl.context.supplier.class":          javaClass,
	"zookeeper.ssl.authProvider":                    ignored, // these are a server's,
	"zookeeper.ssl.clientAuth":                      ignored,
	"zookeeper.ssl.clientHostnameVerification":      ignored,
	"zookeeper.ssl.handshakeDetectionTimeoutMillis": ignored, // or of no meaning here
	"zookeeper.ssl.sslProvider":                     ignored,
	"zookeeper.ssl.allowReverseDnsLookup":           ignored, // never done here

	"zookeeper.sasl.client":           func(a *asked, v string) error { return readNegated(v, &a.saslOff) },
	"zookeeper.sasl.clientconfig":     func(a *asked, v string) error { a.section = v; return nil },
	"java.security.auth.login.config": func(a *asked, v string) error { a.jaas = v; return nil },
	"zookeeper.fips-mode":             func(a *asked, v string) error { return readBool(v, &a.fips) },

	"jute.maxbuffer": maxBuffer,
}

// kafkas are the keys that Kafka spells otherwise.
var kafkas = map[string]string{
	"zookeeper.ssl.client.enable":       "zookeeper.client.secure",
	"zookeeper.ssl.keystore.location":   "zookeeper.ssl.keyStore.location",
	"zookeeper.ssl.keystore.password":   "zookeeper.ssl.keyStore.password",
	"zookeeper.ssl.keystore.type":       "zookeeper.ssl.keyStore.type",
	"zookeeper.ssl.truststore.location": "zookeeper.ssl.trustStore.location",
	"zookeeper.ssl.truststore.password": "zookeeper.ssl.trustStore.password",
	"zookeeper.ssl.truststore.type":     "zookeeper.ssl.trustStore.type",
	"zookeeper.ssl.enabled.protocols":   "zookeeper.ssl.enabledProtocols",
	"zookeeper.ssl.cipher.suites":       "zookeeper.ssl.ciphersuites",
	"zookeeper.ssl.crl.enable":          "zookeeper.ssl.crl",
	"zookeeper.ssl.ocsp.enable":         "zookeeper.ssl.ocsp",
}

// kafkasNames is the one that says another thing: HTTPS, or nothing for no name.
const kafkasNames = "zookeeper.ssl.endpoint.identification.algorithm"

// readClientConfiguration takes what zkCli's -client-configuration takes. What is not
// about ZooKeeper's security is not looked at; an unknown key of ssl is an error.
func (a *asked) readClientConfiguration(name string) error {
	data, err := readFile(name)
	if err != nil {
		return fmt.Errorf("client configuration: %w", err)
	}
	return a.readProperties(name, data)
}

func (a *asked) readProperties(name string, data []byte) error {
	for p, err := range properties(data) {
		if err != nil {
			return fmt.Errorf("%s:%w", name, err)
		}
		key := p.key
		if zookeepers, is := kafkas[key]; is {
			key = zookeepers
		}
		set := keys[key]
		if meansTLS(key) && strings.TrimSpace(p.value) != "" {
			a.tlsKey = cmp.Or(a.tlsKey, p.key)
		}
		switch {
		case key == kafkasNames:
			v := strings.TrimSpace(p.value)
			if a.anyName = v == ""; !a.anyName && !strings.EqualFold(v, "https") {
				return fmt.Errorf("%s:%d: %s must be HTTPS or empty, not %q", name, p.line, p.key, v)
			}
		case set != nil:
			if err := set(a, strings.TrimSpace(p.value)); err != nil {
				return fmt.Errorf("%s:%d: %s: %w", name, p.line, p.key, err)
			}
		case strings.HasPrefix(key, "zookeeper.ssl."):
			return fmt.Errorf("%s:%d: unknown key %s%s", name, p.line, p.key, alike(p.key))
		}
	}
	return nil
}

// meansTLS reports whether a key says that its author wants TLS. Passwords and types do so
// with a store; the keys that are ignored are a server's.
func meansTLS(key string) bool {
	switch strings.TrimPrefix(key, "zookeeper.ssl.") {
	case "keyStore.location", "trustStore.location", "hostnameVerification", "protocol", "enabledProtocols", "ciphersuites":
		return true
	}
	return key == kafkasNames
}

// alike names a key that differs in its case alone.
func alike(key string) string {
	var found []string
	for k := range keys {
		if strings.EqualFold(k, key) {
			found = append(found, k)
		}
	}
	for k := range kafkas {
		if strings.EqualFold(k, key) {
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return "; did you mean " + found[0] + "?"
}

// readBool reads true or false, in any case. Java takes every other word for false, so
// that a typing error would switch protection off without a word.
func readBool(v string, to *bool) error {
	switch {
	case strings.EqualFold(v, "true"):
		*to = true
	case strings.EqualFold(v, "false"):
		*to = false
	default:
		return fmt.Errorf("the value must be true or false, not %q", v)
	}
	return nil
}

// readNegated reads a key that has the opposite sense of the field.
func readNegated(v string, to *bool) error {
	err := readBool(v, to)
	if err == nil {
		*to = !*to
	}
	return err
}

func list(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
}

func ignored(*asked, string) error { return nil }

// storeType is not asked for the type, which the content tells.
func storeType(_ *asked, v string) error {
	switch strings.ToUpper(v) {
	case "", "JKS", "PEM", "PKCS12":
		return nil
	case "BCFKS":
		return errBCFKS
	}
	return fmt.Errorf("unknown store type %q; the types are PEM, PKCS12 and JKS", v)
}

func revocation(_ *asked, v string) error {
	var on bool
	err := readBool(v, &on)
	if on {
		err = errors.New("zksh cannot check whether certificates were revoked; to connect without the check, set the property to false")
	}
	return err
}

// maxBuffer reads a number of bytes as Java does.
func maxBuffer(a *asked, v string) error {
	n, err := strconv.ParseInt(v, 0, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("the value must be a number of bytes, not %q", v)
	}
	a.maxBuffer = int(n)
	return nil
}

func javaClass(_ *asked, v string) error {
	if v != "" {
		return fmt.Errorf("%s is a Java class, which zksh cannot run; set the key store and the trust store with the keyStore and trustStore properties instead", v)
	}
	return nil
}
