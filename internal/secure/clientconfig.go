package secure

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/properties"
)

// A configKey is a property of the client configuration.
type configKey struct {
	apply func(a *effectiveSettings, v string) error
	empty bool // whether an empty value has a meaning
}

// configKeys contains zkCli's properties, and those of Kafka that have no other name in zkCli. The
// names that Kafka uses for zkCli's properties are in kafkaKeys.
var configKeys = map[string]configKey{
	"zookeeper.client.secure":               boolKey(func(a *effectiveSettings) *bool { return &a.tls }),
	"zookeeper.ssl.keyStore.location":       textKey(func(a *effectiveSettings) *string { return &a.key.file }),
	"zookeeper.ssl.keyStore.password":       passwordKey(func(a *effectiveSettings) *string { return &a.key.password }),
	"zookeeper.ssl.keyStore.passwordPath":   textKey(func(a *effectiveSettings) *string { return &a.key.passwordFile }),
	"zookeeper.ssl.keyStore.type":           {apply: storeType, empty: true},
	"zookeeper.ssl.trustStore.location":     textKey(func(a *effectiveSettings) *string { return &a.trust.file }),
	"zookeeper.ssl.trustStore.password":     passwordKey(func(a *effectiveSettings) *string { return &a.trust.password }),
	"zookeeper.ssl.trustStore.passwordPath": textKey(func(a *effectiveSettings) *string { return &a.trust.passwordFile }),
	"zookeeper.ssl.trustStore.type":         {apply: storeType, empty: true},
	"zookeeper.ssl.hostnameVerification":    negatedKey(func(a *effectiveSettings) *bool { return &a.anyName }),
	"zookeeper.ssl.protocol":                textKey(func(a *effectiveSettings) *string { return &a.protocol }),
	"zookeeper.ssl.enabledProtocols":        listKey(func(a *effectiveSettings) *[]string { return &a.protocols }),
	"zookeeper.ssl.ciphersuites":            listKey(func(a *effectiveSettings) *[]string { return &a.suites }),
	"zookeeper.ssl.crl":                     {apply: revocation},
	"zookeeper.ssl.ocsp":                    {apply: revocation},
	"zookeeper.ssl.context.supplier.class":  {apply: javaClass, empty: true},
	kafkaNameCheck:                          {apply: nameCheck, empty: true},

	"zookeeper.sasl.client":           negatedKey(func(a *effectiveSettings) *bool { return &a.saslOff }),
	"zookeeper.sasl.clientconfig":     textKey(func(a *effectiveSettings) *string { return &a.section }),
	"java.security.auth.login.config": textKey(func(a *effectiveSettings) *string { return &a.jaas }),
	"java.security.krb5.conf":         textKey(func(a *effectiveSettings) *string { return &a.kerberos.Config }),
	"zookeeper.server.principal":      textKey(func(a *effectiveSettings) *string { return &a.kerberos.ServerPrincipal }),
	"zookeeper.sasl.client.username":  textKey(func(a *effectiveSettings) *string { return &a.kerberos.Service }),
	"zookeeper.fips-mode":             boolKey(func(a *effectiveSettings) *bool { return &a.fips }),

	"zookeeper.sasl.client.canonicalize.hostname": negatedKey(func(a *effectiveSettings) *bool {
		return &a.kerberos.AsTyped
	}),

	"jute.maxbuffer": {apply: maxBuffer},

	// The remaining properties are for servers, or have no effect on zksh.
	"zookeeper.client.certReload":                   ignored,
	"zookeeper.client.portUnification":              ignored,
	"zookeeper.clientCnxnSocket":                    ignored,
	"zookeeper.disableAutoWatchReset":               ignored,
	"zookeeper.kinit":                               ignored,
	"zookeeper.request.timeout":                     ignored,
	"zookeeper.sasl.serverconfig":                   ignored,
	"zookeeper.server.realm":                        ignored, // the KDC determines the realm
	"zookeeper.ssl.allowReverseDnsLookup":           ignored, // zksh never does reverse lookups
	"zookeeper.ssl.authProvider":                    ignored,
	"zookeeper.ssl.clientAuth":                      ignored,
	"zookeeper.ssl.clientHostnameVerification":      ignored,
	"zookeeper.ssl.handshakeDetectionTimeoutMillis": ignored,
	"zookeeper.ssl.sslProvider":                     ignored,
}

// reservedPrefixes are the beginnings of names that ZooKeeper's client uses for its security. A typo
// in such a name must not turn off TLS or authentication, so an unknown one is an error.
var reservedPrefixes = []string{"zookeeper.client.", "zookeeper.sasl.", "zookeeper.ssl."}

// The functions below return a property whose value is stored in the field that they get.

func textKey(field func(*effectiveSettings) *string) configKey {
	return configKey{apply: func(a *effectiveSettings, v string) error { *field(a) = v; return nil }}
}

func listKey(field func(*effectiveSettings) *[]string) configKey {
	return configKey{apply: func(a *effectiveSettings, v string) error { *field(a) = list(v); return nil }}
}

func boolKey(field func(*effectiveSettings) *bool) configKey {
	return configKey{apply: func(a *effectiveSettings, v string) error { return readBool(v, field(a)) }}
}

// negatedKey returns a boolean property. The opposite of its value is stored in the field.
func negatedKey(field func(*effectiveSettings) *bool) configKey {
	return configKey{apply: func(a *effectiveSettings, v string) error {
		err := readBool(v, field(a))
		if err == nil {
			*field(a) = !*field(a)
		}
		return err
	}}
}

// passwordKey returns a property whose value is the password of a store. The password can be empty.
func passwordKey(field func(*effectiveSettings) *string) configKey {
	key := textKey(field)
	key.empty = true
	return key
}

var ignored = configKey{apply: func(*effectiveSettings, string) error { return nil }, empty: true}

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

// brokerKeys contains properties of Kafka's brokers and clients. They are equal to ZooKeeper's
// properties without the prefix zookeeper, and a complete configuration of a broker can contain both.
var brokerKeys = []string{
	"ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.type",
	"ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type",
	"ssl.protocol", "ssl.enabled.protocols", "ssl.cipher.suites", "ssl.endpoint.identification.algorithm",
}

// readClientConfiguration reads a properties file in the format of zkCli's option
// -client-configuration. It ignores properties that are not about security, unless one of them looks
// like a mistyped property about security. A file in which zksh knows no property is an error. Otherwise,
// zksh could connect without TLS, and send credentials in clear.
func (a *effectiveSettings) readClientConfiguration(name string) error {
	f, err := readFile(name)
	if err != nil {
		return fmt.Errorf("client configuration: %w", err)
	}
	if err := a.readProperties(name, f.Data); err != nil {
		return err
	}
	if a.secret {
		if err := f.CheckPrivate(aPassword); err != nil {
			return fmt.Errorf("client configuration: %w", err)
		}
	}
	return nil
}

func (a *effectiveSettings) readProperties(name string, data []byte) error {
	var first, broker properties.Property // the first property in the file, and the first one in brokerKeys
	known, about := false, false          // whether the file contains a known property, and one about TLS
	for p, err := range properties.Parse(data) {
		if err != nil {
			return fmt.Errorf("%s:%w", name, err)
		}
		if first.Key == "" {
			first = p
		}
		if p.Value != "" && strings.HasSuffix(strings.ToLower(p.Key), "password") {
			a.secret = true
		}
		key := cmp.Or(kafkaKeys[p.Key], p.Key)
		property, is := configKeys[key]
		switch {
		case is:
			known = true
			about = about || meansTLS(key) || key == "zookeeper.client.secure"
			if err := a.apply(key, property, p); err != nil {
				return fmt.Errorf("%s:%d: %s: %w", name, p.Line, p.Key, err)
			}
		case slices.Contains(brokerKeys, p.Key):
			if broker.Key == "" {
				broker = p
			}
		default:
			if err := misspelt(p); err != nil {
				return fmt.Errorf("%s:%d: %w", name, p.Line, err)
			}
		}
	}
	switch {
	case broker.Key != "" && !about:
		return fmt.Errorf("%s:%d: unknown key %s%s", name, broker.Line, broker.Key, suggestion(broker.Key))
	case first.Key == "":
		return fmt.Errorf("%s contains no property; expected lines such as zookeeper.client.secure=true", name)
	case !known && first.Value == "": // perhaps a file with a password, which must not be shown
		return fmt.Errorf("%s contains no property of ZooKeeper's client, such as zookeeper.client.secure=true", name)
	case !known:
		return fmt.Errorf("%s:%d: unknown key %s; the file contains no property of ZooKeeper's client,"+
			" such as zookeeper.client.secure=true", name, first.Line, first.Key)
	}
	return nil
}

// apply applies a property of the file. key is its name in configKeys.
func (a *effectiveSettings) apply(key string, to configKey, p properties.Property) error {
	v := strings.TrimSpace(p.Value)
	if v != "" && meansTLS(key) {
		a.tlsKey = cmp.Or(a.tlsKey, p.Key)
	}
	if err := to.apply(a, v); err != nil {
		return err
	}
	if v == "" && !to.empty {
		return errors.New("the value is empty; give it a value, or remove the line")
	}
	return nil
}

// misspelt returns an error if an unknown property is probably a mistyped one that is known.
func misspelt(p properties.Property) error {
	if s := suggestion(p.Key); s != "" || hasReservedPrefix(p.Key) {
		return fmt.Errorf("unknown key %s%s", p.Key, s)
	}
	// a line of a shell script, such as export FLAGS=-D…
	for word := range strings.FieldsFuncSeq(p.Value, betweenOptions) {
		name, _, is := strings.Cut(word, "=")
		if is && (hasReservedPrefix(name) || strings.HasPrefix(name, javaOption) && suggestion(name) != "") {
			return fmt.Errorf("the value of %s contains %s; write each property on a line of its own,"+
				" as in zookeeper.client.secure=true", p.Key, name)
		}
	}
	return nil
}

// betweenOptions reports whether a character separates options of Java's command line.
func betweenOptions(r rune) bool { return strings.ContainsRune("\t\f \"'", r) }

// javaOption precedes the name of a property on Java's command line.
const javaOption = "-D"

// plainKey returns a key without characters that do not belong to it: Java's option, quotation marks,
// and a byte order mark.
func plainKey(key string) string {
	return strings.TrimPrefix(strings.Trim(strings.TrimPrefix(key, "\u00ef\u00bb\u00bf"), `"'`), javaOption)
}

func hasReservedPrefix(key string) bool {
	key = strings.ToLower(plainKey(key))
	return slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// meansTLS reports whether a user who sets this property wants TLS. Settings of servers do not
// count, and neither do the password and the type of a store, which have no effect alone.
func meansTLS(key string) bool {
	switch strings.TrimPrefix(key, "zookeeper.ssl.") {
	case "keyStore.location", "trustStore.location", "hostnameVerification", "protocol",
		"enabledProtocols", "ciphersuites":
		return true
	}
	return key == kafkaNameCheck
}

// suggestion returns a "did you mean" hint if a known property differs from key only in case, in
// the prefix zookeeper, or in what plainKey removes. Otherwise, it returns an empty string.
func suggestion(key string) string {
	key = plainKey(key)
	var found []string
	for _, k := range slices.Concat(slices.Collect(maps.Keys(configKeys)), slices.Collect(maps.Keys(kafkaKeys))) {
		switch short := strings.TrimPrefix(k, "zookeeper."); {
		case k == key || short == key:
			return "; did you mean " + k + "?"
		case strings.EqualFold(k, key) || strings.EqualFold(short, key):
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return "; did you mean " + slices.Min(found) + "?"
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

func list(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
}

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
		err = errors.New("zksh cannot check whether certificates were revoked; to connect without the check, " +
			"set the property to false")
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

// nameCheck reads kafkaNameCheck.
func nameCheck(a *effectiveSettings, v string) error {
	if a.anyName = v == ""; !a.anyName && !strings.EqualFold(v, "https") {
		return fmt.Errorf("the value must be HTTPS or empty, not %q", v)
	}
	return nil
}

func javaClass(_ *effectiveSettings, v string) error {
	if v != "" {
		return fmt.Errorf("%s is a Java class, which zksh cannot run; set the key store and the trust store with the "+
			"keyStore and trustStore properties instead", v)
	}
	return nil
}
