package secure

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/properties"
)

// configKeys maps zkCli's properties to the functions that apply them. The names that Kafka uses
// for the same properties are in kafkaKeys.
var configKeys = map[string]func(a *effectiveSettings, v string) error{
	"zookeeper.client.secure":                       func(a *effectiveSettings, v string) error { return readBool(v, &a.tls) },
	"zookeeper.ssl.keyStore.location":               func(a *effectiveSettings, v string) error { a.key.file = v; return nil },
	"zookeeper.ssl.keyStore.password":               func(a *effectiveSettings, v string) error { a.key.password = v; return nil },
	"zookeeper.ssl.keyStore.passwordPath":           func(a *effectiveSettings, v string) error { a.key.passwordFile = v; return nil },
	"zookeeper.ssl.keyStore.type":                   storeType,
	"zookeeper.ssl.trustStore.location":             func(a *effectiveSettings, v string) error { a.trust.file = v; return nil },
	"zookeeper.ssl.trustStore.password":             func(a *effectiveSettings, v string) error { a.trust.password = v; return nil },
	"zookeeper.ssl.trustStore.passwordPath":         func(a *effectiveSettings, v string) error { a.trust.passwordFile = v; return nil },
	"zookeeper.ssl.trustStore.type":                 storeType,
	"zookeeper.ssl.hostnameVerification":            func(a *effectiveSettings, v string) error { return readNegated(v, &a.anyName) },
	"zookeeper.ssl.protocol":                        func(a *effectiveSettings, v string) error { a.protocol = v; return nil },
	"zookeeper.ssl.enabledProtocols":                func(a *effectiveSettings, v string) error { a.protocols = list(v); return nil },
	"zookeeper.ssl.ciphersuites":                    func(a *effectiveSettings, v string) error { a.suites = list(v); return nil },
	"zookeeper.ssl.crl":                             revocation,
	"zookeeper.ssl.ocsp":                            revocation,
	"zookeeper.ssl.context.supplier.class":          javaClass,
	"zookeeper.ssl.authProvider":                    ignored, // this property and the next two are for servers
	"zookeeper.ssl.clientAuth":                      ignored,
	"zookeeper.ssl.clientHostnameVerification":      ignored,
	"zookeeper.ssl.handshakeDetectionTimeoutMillis": ignored, // no effect on zksh
	"zookeeper.ssl.sslProvider":                     ignored,
	"zookeeper.ssl.allowReverseDnsLookup":           ignored, // zksh never does reverse lookups

	"zookeeper.sasl.client":           func(a *effectiveSettings, v string) error { return readNegated(v, &a.saslOff) },
	"zookeeper.sasl.clientconfig":     func(a *effectiveSettings, v string) error { a.section = v; return nil },
	"java.security.auth.login.config": func(a *effectiveSettings, v string) error { a.jaas = v; return nil },
	"java.security.krb5.conf":         func(a *effectiveSettings, v string) error { a.kerberos.Config = v; return nil },
	"zookeeper.server.principal":      func(a *effectiveSettings, v string) error { a.kerberos.ServerPrincipal = v; return nil },
	"zookeeper.sasl.client.username":  func(a *effectiveSettings, v string) error { a.kerberos.Service = v; return nil },
	"zookeeper.sasl.client.canonicalize.hostname": func(a *effectiveSettings, v string) error {
		return readNegated(v, &a.kerberos.AsTyped)
	},
	"zookeeper.fips-mode": func(a *effectiveSettings, v string) error { return readBool(v, &a.fips) },

	"jute.maxbuffer": maxBuffer,
}

// kafkaKeys maps Kafka's names of properties to zkCli's names.
var kafkaKeys = map[string]string{
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

// kafkaNameCheck is a property that only Kafka has. If its value is HTTPS, zksh verifies the
// server's host name. If the value is empty, it does not.
const kafkaNameCheck = "zookeeper.ssl.endpoint.identification.algorithm"

// readClientConfiguration reads a properties file in the format of zkCli's option
// -client-configuration. It ignores properties that are not about security. An unknown
// zookeeper.ssl property is an error.
func (a *effectiveSettings) readClientConfiguration(name string) error {
	data, err := readFile(name)
	if err != nil {
		return fmt.Errorf("client configuration: %w", err)
	}
	return a.readProperties(name, data)
}

func (a *effectiveSettings) readProperties(name string, data []byte) error {
	for p, err := range properties.Parse(data) {
		if err != nil {
			return fmt.Errorf("%s:%w", name, err)
		}
		key := p.Key
		if zookeepers, is := kafkaKeys[key]; is {
			key = zookeepers
		}
		set := configKeys[key]
		if meansTLS(key) && strings.TrimSpace(p.Value) != "" {
			a.tlsKey = cmp.Or(a.tlsKey, p.Key)
		}
		switch {
		case key == kafkaNameCheck:
			v := strings.TrimSpace(p.Value)
			if a.anyName = v == ""; !a.anyName && !strings.EqualFold(v, "https") {
				return fmt.Errorf("%s:%d: %s must be HTTPS or empty, not %q", name, p.Line, p.Key, v)
			}
		case set != nil:
			if err := set(a, strings.TrimSpace(p.Value)); err != nil {
				return fmt.Errorf("%s:%d: %s: %w", name, p.Line, p.Key, err)
			}
		case strings.HasPrefix(key, "zookeeper.ssl."):
			return fmt.Errorf("%s:%d: unknown key %s%s", name, p.Line, p.Key, suggestion(p.Key))
		}
	}
	return nil
}

// meansTLS reports whether a user who sets this property wants TLS. Settings of servers do not
// count, and neither do the password and the type of a store, which have no effect alone.
func meansTLS(key string) bool {
	switch strings.TrimPrefix(key, "zookeeper.ssl.") {
	case "keyStore.location", "trustStore.location", "hostnameVerification", "protocol", "enabledProtocols", "ciphersuites":
		return true
	}
	return key == kafkaNameCheck
}

// suggestion returns a "did you mean" hint if a known property differs from key only in case, or
// else an empty string.
func suggestion(key string) string {
	var found []string
	for k := range configKeys {
		if strings.EqualFold(k, key) {
			found = append(found, k)
		}
	}
	for k := range kafkaKeys {
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

// readBool parses true or false, in upper or lower case, and stores the result in *to. Any other
// word is an error. Java reads such a word as false, so a typo could silently disable a security
// check.
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

// readNegated parses a boolean property, and stores the opposite of its value in *to.
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

func ignored(*effectiveSettings, string) error { return nil }

// storeType rejects unsupported types of key stores and trust stores. It does not record the
// type, because readStore detects it from the contents of the file.
func storeType(_ *effectiveSettings, v string) error {
	switch strings.ToUpper(v) {
	case "", "JKS", "PEM", "PKCS12":
		return nil
	case "BCFKS":
		return errBCFKS
	}
	return fmt.Errorf("unknown store type %q; the types are PEM, PKCS12 and JKS", v)
}

func revocation(_ *effectiveSettings, v string) error {
	var on bool
	err := readBool(v, &on)
	if on {
		err = errors.New("zksh cannot check whether certificates were revoked; to connect without the check, set the property to false")
	}
	return err
}

// maxBuffer parses jute.maxbuffer, a number of bytes in Java's notation, and records it.
func maxBuffer(a *effectiveSettings, v string) error {
	n, err := strconv.ParseInt(v, 0, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("the value must be a number of bytes, not %q", v)
	}
	a.maxBuffer = int(n)
	return nil
}

func javaClass(_ *effectiveSettings, v string) error {
	if v != "" {
		return fmt.Errorf("%s is a Java class, which zksh cannot run; set the key store and the trust store with the keyStore and trustStore properties instead", v)
	}
	return nil
}
