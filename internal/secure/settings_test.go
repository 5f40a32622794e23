package secure

import (
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func load(t *testing.T, config string, s Settings) (Config, error) {
	t.Helper()
	if config != "" {
		s.ClientConfiguration = filepath.Join(t.TempDir(), "client.properties")
		if err := os.WriteFile(s.ClientConfiguration, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s.Load(environment(map[string]string{keyPasswordName: password, trustPasswordName: password}))
}

// The same settings in zkCli's and in Kafka's spelling result in the same Config.
func TestClientConfigurations(t *testing.T) {
	const zkCli = `zookeeper.client.secure=true
zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty
zookeeper.ssl.keyStore.location=testdata/key.p12
zookeeper.ssl.keyStore.password=changeit
zookeeper.ssl.keyStore.type=PKCS12
zookeeper.ssl.trustStore.location=testdata/trust.jks
zookeeper.ssl.trustStore.password=changeit
zookeeper.ssl.hostnameVerification=false
zookeeper.ssl.protocol=TLSv1.3
zookeeper.ssl.enabledProtocols=TLSv1.2
zookeeper.ssl.ciphersuites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
zookeeper.ssl.crl=false
zookeeper.ssl.ocsp=false
zookeeper.ssl.handshakeDetectionTimeoutMillis=5000
`
	const kafka = `zookeeper.connect=zk1:2182
zookeeper.ssl.client.enable=true
zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty
zookeeper.ssl.keystore.location=testdata/key.p12
zookeeper.ssl.keystore.password=changeit
zookeeper.ssl.keystore.type=PKCS12
zookeeper.ssl.truststore.location=testdata/trust.jks
zookeeper.ssl.truststore.password=changeit
zookeeper.ssl.truststore.type=JKS
zookeeper.ssl.endpoint.identification.algorithm=
zookeeper.ssl.protocol=TLSv1.3
zookeeper.ssl.enabled.protocols=TLSv1.2
zookeeper.ssl.cipher.suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
zookeeper.ssl.crl.enable=false
zookeeper.ssl.ocsp.enable=false
`
	a, errA := load(t, zkCli, Settings{})
	b, errB := load(t, kafka, Settings{})
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("zkCli's: %+v\nKafka's: %+v", a.TLS, b.TLS)
	}
	if x := a.TLS; x.clientCert == nil || len(x.trusted) != 1 || !x.anyName || x.insecure || x.min != tls.VersionTLS12 || x.max != tls.VersionTLS12 || len(x.suites) != 1 {
		t.Errorf("%+v", x)
	}
	// Options override properties of the file.
	c, err := load(t, zkCli, Settings{CACert: "testdata/cert.pem", Cert: "testdata/cert.pem", Key: "testdata/locked.pem", Name: "zk"})
	if err != nil || c.TLS.name != "zk" || c.TLS.clientCert == nil {
		t.Errorf("%+v, %v", c.TLS, err)
	}
	// A configuration without security properties means a plain connection.
	if c, err := load(t, "zookeeper.request.timeout=1\n", Settings{}); err != nil || c.TLS != nil || c.Remarks != nil {
		t.Errorf("%+v, %v", c, err)
	}
	// The option TLS switches TLS on, even if the file switches it off.
	if c, err = load(t, strings.Replace(zkCli, "secure=true", "secure=false", 1), Settings{TLS: true}); err != nil || c.TLS == nil {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := load(t, "", Settings{}); err != nil || !reflect.DeepEqual(c, Config{}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// Gap and Agreed show that the server, or its name, is not verified.
func TestGap(t *testing.T) {
	const on = "zookeeper.client.secure=true\n"
	for _, c := range []struct {
		config string
		s      Settings
		want   string
	}{
		{on, Settings{}, ""},
		{on + "zookeeper.ssl.hostnameVerification=True", Settings{}, ""},
		{on + "zookeeper.ssl.hostnameVerification=false", Settings{}, nameNotVerified},
		{on + "zookeeper.ssl.endpoint.identification.algorithm=", Settings{}, nameNotVerified},
		{on + "zookeeper.ssl.endpoint.identification.algorithm=https ", Settings{}, ""},
		{on + "zookeeper.ssl.hostnameVerification=false", Settings{Insecure: true}, notVerified},
	} {
		got, err := load(t, c.config, c.s)
		if err != nil {
			t.Fatal(err)
		}
		agreed := newAgreed(tls.ConnectionState{}, got.TLS, false).String()
		said := strings.HasSuffix(agreed, ", "+c.want)
		if c.want == "" {
			said = !strings.Contains(agreed, notVerified)
		}
		if got.TLS.Gap() != c.want || !said {
			t.Errorf("%q %+v: %q, %s", c.config, c.s, got.TLS.Gap(), agreed)
		}
	}
	if gap := (*TLS)(nil).Gap(); gap != "" {
		t.Errorf("without TLS: %q", gap)
	}
}

func TestBadSettings(t *testing.T) {
	const on = "zookeeper.client.secure=true\n"
	key, digest := private(t, "key.pem"), filepath.ToSlash(private(t, "digest.jaas"))
	for _, c := range []struct {
		config string
		s      Settings
		want   string
	}{
		{"", Settings{ClientConfiguration: "nowhere"}, "client configuration: the file nowhere does not exist"},
		{on + "zookeeper.ssl.nonsense=1", Settings{}, "client.properties:2: unknown key zookeeper.ssl.nonsense"},
		{"zookeeper.ssl.keyStore.Location=x", Settings{}, "did you mean zookeeper.ssl.keyStore.location?"},
		{on + "zookeeper.ssl.crl=true", Settings{}, "client.properties:2: zookeeper.ssl.crl: zksh cannot check whether certificates were revoked"},
		{on + "zookeeper.ssl.ocsp.enable=TRUE", Settings{}, "zookeeper.ssl.ocsp.enable: zksh cannot check"},
		{"zookeeper.ssl.keyStore.type=BCFKS", Settings{}, "keytool -importkeystore"},
		{"zookeeper.ssl.keyStore.type=X", Settings{}, `unknown store type "X"`},
		{"zookeeper.ssl.context.supplier.class=a.B", Settings{}, "a.B is a Java class"},
		{on + "zookeeper.ssl.protocol=SSLv3", Settings{}, `unknown protocol "SSLv3"`},
		{on + "zookeeper.ssl.enabledProtocols=TLSv1.3,TLSv1.1", Settings{}, "TLS 1.2 must also be enabled"},
		{on + "zookeeper.ssl.ciphersuites=TLS_NULL,X", Settings{}, "does not support any of these cipher suites: TLS_NULL, X"},
		{on + "zookeeper.ssl.protocol=TLSv1.2\nzookeeper.ssl.ciphersuites=TLS_AES_128_GCM_SHA256", Settings{}, "none of the enabled protocols"},
		{on + "zookeeper.ssl.trustStore.location=nowhere", Settings{}, "trusted certificates: the file nowhere does not exist"},
		{on + "zookeeper.ssl.keyStore.location=nowhere", Settings{}, "client certificate: the file nowhere does not exist"},
		{on + "zookeeper.ssl.keyStore.location=testdata/key.p12\nzookeeper.ssl.keyStore.passwordPath=nowhere", Settings{}, "cannot read the store's password: the file nowhere does not exist"},
		{"a=\\u1", Settings{}, "client.properties:1: \\u must be followed"},
		{"", Settings{Key: "testdata/key.pem"}, "--key requires --cert"},
		{"", Settings{CACert: key}, "key.pem: the file contains no certificate to trust"},
		{"", Settings{JAAS: "nowhere"}, "JAAS file: the file nowhere does not exist"},
		{"java.security.auth.login.config=testdata/cert.pem", Settings{}, "JAAS file: testdata/cert.pem: line 1: expected a section"},
		{"zookeeper.fips-mode=true\njava.security.auth.login.config=" + digest, Settings{}, "zookeeper.fips-mode=true, which forbids"},
		{"zookeeper.client.secure=yes", Settings{}, `client.properties:1: zookeeper.client.secure: the value must be true or false, not "yes"`},
		{on + "zookeeper.ssl.hostnameVerification=on", Settings{}, `client.properties:2: zookeeper.ssl.hostnameVerification: the value must be true or false, not "on"`},
		{on + "zookeeper.ssl.hostnameVerification=", Settings{}, `client.properties:2: zookeeper.ssl.hostnameVerification: the value must be true or false, not ""`},
		{"zookeeper.sasl.client=0", Settings{}, `zookeeper.sasl.client: the value must be true or false, not "0"`},
		{"zookeeper.fips-mode=1", Settings{}, `zookeeper.fips-mode: the value must be true or false, not "1"`},
		{"zookeeper.ssl.crl=ture", Settings{}, `zookeeper.ssl.crl: the value must be true or false, not "ture"`},
		{"zookeeper.ssl.client.enable=TRUE\nzookeeper.ssl.endpoint.identification.algorithm=none", Settings{}, `algorithm: the value must be HTTPS or empty, not "none"`},
		{"zookeeper.ssl.trustStore.location=testdata/trust.jks", Settings{}, "client.properties sets zookeeper.ssl.trustStore.location, but not zookeeper.client.secure=true: add that property"},
		{"zookeeper.client.secure=false\nzookeeper.ssl.keyStore.location=testdata/key.p12", Settings{}, "sets zookeeper.ssl.keyStore.location, but not zookeeper.client.secure=true"},
		{"zookeeper.ssl.hostnameVerification=true", Settings{}, "sets zookeeper.ssl.hostnameVerification, but not"},
		{"zookeeper.ssl.endpoint.identification.algorithm=HTTPS", Settings{}, "sets zookeeper.ssl.endpoint.identification.algorithm, but not"},
		{"zookeeper.ssl.client.enable=false\nzookeeper.ssl.enabled.protocols=TLSv1.3", Settings{}, "sets zookeeper.ssl.enabled.protocols, but not"},
		{"zookeeper.ssl.protocol=TLSv1.3", Settings{}, "sets zookeeper.ssl.protocol, but not"},
		{"zookeeper.ssl.ciphersuites=TLS_AES_128_GCM_SHA256", Settings{}, "sets zookeeper.ssl.ciphersuites, but not"},
	} {
		if _, err := load(t, c.config, c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %+v: %v", c.config, c.s, err)
		}
	}
}

// Java's default list has cipher suites that crypto/tls lacks. They are left out with a remark.
func TestSuites(t *testing.T) {
	c, err := load(t, "zookeeper.client.secure=true\nzookeeper.ssl.ciphersuites="+
		"TLS_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384,SSL_RSA_WITH_3DES_EDE_CBC_SHA,TLS_EMPTY_RENEGOTIATION_INFO_SCSV", Settings{})
	if err != nil || len(c.Remarks) != 1 || c.Remarks[0] != "ignoring cipher suites that zksh does not support: TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384" {
		t.Errorf("%q, %v", c.Remarks, err)
	}
	if !reflect.DeepEqual(c.TLS.suites, []uint16{tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA}) || len(c.TLS.allowed) != 2 {
		t.Errorf("%+v", c.TLS)
	}
}

func TestSASLSettings(t *testing.T) {
	jaas := filepath.ToSlash(filepath.Join(t.TempDir(), "jaas.conf")) // a backslash is an escape in properties
	text := `Client { o.DigestLoginModule required username="bob" password="secret"; };
		Other { o.DigestLoginModule required username="ann" password="secret"; };`
	if err := os.WriteFile(jaas, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config string
		s      Settings
		want   string
	}{
		{"java.security.auth.login.config=" + jaas, Settings{}, "SASL as bob"},
		{"zookeeper.sasl.clientconfig=Other\njava.security.auth.login.config=" + jaas, Settings{}, "SASL as ann"},
		{"zookeeper.sasl.clientconfig=Other", Settings{JAAS: jaas}, "SASL as ann"},
		{"zookeeper.sasl.client=false\njava.security.auth.login.config=" + jaas, Settings{}, "<nil>"},
		{"", Settings{JAAS: jaas}, "SASL as bob"},
	} {
		got, err := load(t, c.config, c.s)
		have := "<nil>"
		if got.SASL != nil {
			have = fmt.Sprintf("%v", got.SASL)
		}
		if err != nil || have != c.want || strings.Contains(fmt.Sprintf("%v %+v %#v", got.SASL, got.SASL, got.SASL), "secret") {
			t.Errorf("%q: %s, %v", c.config, have, err)
		}
	}
}

// A client configuration that zksh does not understand is an error, because it could turn off TLS or
// authentication. The error names the property that was meant.
func TestMisspeltClientConfigurations(t *testing.T) {
	const (
		secure = "; did you mean zookeeper.client.secure?"
		none   = "; the file contains no property of ZooKeeper's client, such as zookeeper.client.secure=true"
		java   = " contains -Dzookeeper.client.secure; write each property on a line of its own"
		tuned  = "zookeeper.request.timeout=1\n"
		kafkas = "ssl.truststore.location=trust.jks\nssl.truststore.password=changeit\nssl.protocol=TLS\n"
	)
	for config, want := range map[string]string{
		"-Dzookeeper.client.secure=true\n-Dzookeeper.ssl.protocol=TLSv1.3": "1: unknown key -Dzookeeper.client.secure" + secure,
		"-Dzookeeper.client.secure=true -Dzookeeper.ssl.protocol=TLSv1.3":  "1: unknown key -Dzookeeper.client.secure" + secure,
		"-Djava.security.auth.login.config=/jaas":                          "did you mean java.security.auth.login.config?",
		`CLIENT_JVMFLAGS="-Xmx1g -Dzookeeper.client.secure=true"`:          "1: the value of CLIENT_JVMFLAGS" + java,
		`export CLIENT_JVMFLAGS="-Dzookeeper.client.secure=true"`:          "1: the value of export" + java,
		"# zoo.cfg\nsecureClientPort=2281\nssl.keyStore.location=k.jks":    "3: unknown key ssl.keyStore.location; did you mean zookeeper.ssl.keyStore.location?",
		"security.protocol=SSL\n" + kafkas:                                 "2: unknown key ssl.truststore.location; did you mean zookeeper.ssl.truststore.location?",

		"client.secure=true":           "1: unknown key client.secure" + secure,
		"Client.Secure=true":           "1: unknown key Client.Secure" + secure,
		"-Dclient.secure=true":         "1: unknown key -Dclient.secure" + secure,
		"Zookeeper.Client.Secure=true": "1: unknown key Zookeeper.Client.Secure" + secure,

		`"zookeeper.client.secure"=true`:           `1: unknown key "zookeeper.client.secure"` + secure,
		"\xef\xbb\xbfzookeeper.client.secure=true": secure,

		"javax.net.ssl.trustStore=trust.jks":  "1: unknown key javax.net.ssl.trustStore" + none,
		"security.protocol=SASL_SSL":          "1: unknown key security.protocol" + none,
		"export zookeeper.client.secure=true": "1: the value of export contains zookeeper.client.secure; write each property on",
		"<configuration>\n":                   "client.properties contains no property of ZooKeeper's client, such as",
		"Kestrel-29-north\n":                  "client.properties contains no property of ZooKeeper's client, such as",
		"digest ann:Kestrel-29-north\n":       "1: unknown key digest" + none,
		"zookeeper.connect=zk:2181":           "1: unknown key zookeeper.connect" + none,
		"# only\n! comments\n":                "client.properties contains no property; expected lines such as zookeeper.client.secure=true",
		" ":                                   "client.properties contains no property",

		"zookeeper.client.tls=true":         "1: unknown key zookeeper.client.tls",
		"zookeeper.sasl.client.login=true":  "1: unknown key zookeeper.sasl.client.login",
		"-DZooKeeper.SSL.nonsense=1":        "1: unknown key -DZooKeeper.SSL.nonsense",
		"zookeeper.ssl.client.enabled=true": "1: unknown key zookeeper.ssl.client.enabled",

		"zookeeper.Client.secure=true\n" + tuned:        "1: unknown key zookeeper.Client.secure" + secure,
		tuned + "-Dzookeeper.client.secure=true":        "2: unknown key -Dzookeeper.client.secure" + secure,
		tuned + "client.secure=true":                    "2: unknown key client.secure" + secure,
		tuned + "zookeeper.client.tls=true":             "2: unknown key zookeeper.client.tls",
		tuned + "FLAGS=-Dzookeeper.client.secure=true ": "2: the value of FLAGS" + java,
		tuned + kafkas:                   "2: unknown key ssl.truststore.location; did you mean zookeeper.ssl.truststore.location?",
		tuned + "ssl.client.enable=true": "2: unknown key ssl.client.enable; did you mean zookeeper.ssl.client.enable?",
		tuned + "fips-mode=true":         "2: unknown key fips-mode; did you mean zookeeper.fips-mode?",
	} {
		if _, err := load(t, config, Settings{}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Kestrel") {
			t.Errorf("%q: %v", config, err)
		}
	}
	for config, tls := range map[string]bool{
		tuned:                             false,
		"zookeeper.client.secure=False\n": false,
		"zookeeper.client.secure=True\nzookeeper.client.certReload=true\n":           true,
		kafkas + "zookeeper.ssl.client.enable=true\n":                                true, // as in a broker's server.properties
		"broker.id=0\n" + kafkas + "zookeeper.ssl.client.enable = true\n":            true,
		kafkas + "zookeeper.client.secure=false\nzookeeper.clientCnxnSocket=netty\n": false,
		"jute.maxbuffer=0x3fffff\nKAFKA_OPTS=-Xmx1g -Dlog4j.configuration=file:x\n":  false,
	} {
		if c, err := load(t, config, Settings{}); err != nil || (c.TLS != nil) != tls {
			t.Errorf("%q: %+v, %v", config, c.TLS, err)
		}
	}
}

// Each property rejects an empty value, unless the table says that it has a meaning. The meaning is
// never that TLS or authentication is off.
func TestEmptyProperties(t *testing.T) {
	meant := []string{
		kafkaNameCheck, "zookeeper.ssl.context.supplier.class",
		"zookeeper.ssl.keyStore.password", "zookeeper.ssl.keyStore.type",
		"zookeeper.ssl.trustStore.password", "zookeeper.ssl.trustStore.type",
	}
	names := maps.Clone(kafkaKeys)
	for name := range configKeys {
		names[name] = name
	}
	for name, key := range names {
		known := configKeys[key]
		isIgnored := reflect.ValueOf(known.apply).Pointer() == reflect.ValueOf(ignored.apply).Pointer()
		harmless := slices.Contains(meant, key) || isIgnored
		_, err := load(t, "zookeeper.client.secure=true\n"+name+" = \n", Settings{})
		switch {
		case harmless != known.empty:
			t.Errorf("%s: empty is %t", name, known.empty)
		case harmless && err != nil, !harmless && (err == nil || !strings.Contains(err.Error(), ":2: "+name+": the value ")):
			t.Errorf("%s: %v", name, err)
		}
	}
}
