package secure

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"testing"
)

// Names are compared as by ZKHostnameVerifier, except that a star matches only the complete
// leftmost label, as in crypto/x509.
func TestNamed(t *testing.T) {
	cn := func(name string) *x509.Certificate { return &x509.Certificate{Subject: pkix.Name{CommonName: name}} }
	alt := func(dns ...string) *x509.Certificate {
		return &x509.Certificate{Subject: pkix.Name{CommonName: "zk1"}, DNSNames: dns}
	}
	ips := &x509.Certificate{IPAddresses: []net.IP{net.ParseIP("10.0.0.1"), net.ParseIP("fd00::1")}}
	uri := &x509.Certificate{Subject: pkix.Name{CommonName: "zk1"}, URIs: []*url.URL{{Scheme: "spiffe"}}}
	for _, c := range []struct {
		cert *x509.Certificate
		host string
		want bool
	}{
		{cn("zk1"), "zk1", true},
		{cn("ZK1"), "zk1.", true},
		{cn("zk1"), "zk2", false},
		{cn(""), "", false},
		{cn("10.0.0.1"), "10.0.0.1", true},
		{cn("*.0.0.1"), "10.0.0.1", false},
		{cn("*.example.com"), "zk1.example.com", true},
		{alt("zk2"), "zk1", false}, // the common name is ignored
		{alt("zk2", "Zk3"), "zK3", true},
		{alt("*.example.com"), "zk1.example.com", true},
		{alt("*.example.com"), "a.zk1.example.com", false},
		{alt("*.example.com"), "example.com", false},
		{alt("*.example.com"), "*.example.com", true}, // compared like any other label
		{alt("*.example.com"), "..example.com", false},
		{alt("*.EXAMPLE.com"), "ZK1.example.COM", true},
		{alt("*.com"), "example.com", true},
		{alt("zk*.example.com"), "zk12.example.com", false},
		{alt("*k.example.com"), "zk.example.com", false},
		{alt("zk.*.com"), "zk.example.com", false},
		{alt("zk.*"), "zk.example", false},
		{alt("*"), "localhost", false},
		{alt("*."), "localhost", false},
		{alt("*"), "zk1.", false},
		{alt("*.*.com"), "a.b.com", false},
		{alt("*.*.com"), "a.b.com.", false},
		{cn("*"), "zk1", false},
		{cn("z\u212a1"), "zk1", false},       // the Kelvin sign
		{alt("10.0.0.1"), "10.0.0.1", false}, // an address in DNSNames does not count
		{uri, "zk1", false},
		{ips, "10.0.0.1", true},
		{ips, "10.0.0.2", false},
		{ips, "fd00:0:0::1", true},
		{ips, "zk1", false},
	} {
		if got := matchesHost(c.cert, c.host); got != c.want {
			t.Errorf("%q %v %q for %q: %t", c.cert.Subject.CommonName, c.cert.DNSNames, c.cert.IPAddresses, c.host, got)
		}
	}
}
