package secure

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/zksh/zksh/internal/peer"
)

// crypto/tls rejects a certificate if the host name is only in its subject. Java accepts such
// certificates, and ZooKeeper's own guide creates them. Therefore verify does the complete
// verification, and InsecureSkipVerify only turns off the verification by crypto/tls.

// verify checks the cipher suite and the chain of the server's certificate, and checks that the
// certificate is for one of the names.
func (t *TLS) verify(cs tls.ConnectionState, names []string) error {
	if len(t.allowed) > 0 && !slices.Contains(t.allowed, cs.CipherSuite) {
		return problem("the server chose the cipher suite "+tls.CipherSuiteName(cs.CipherSuite)+
			", which the client configuration does not allow", nil)
	}
	if t.insecure {
		return nil
	}
	if len(cs.PeerCertificates) == 0 {
		return problem("the server sent no certificate", nil)
	}
	leaf := cs.PeerCertificates[0]
	now := time.Now()
	opts := x509.VerifyOptions{CurrentTime: now, Intermediates: x509.NewCertPool(),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, c := range cs.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	if t.trusted != nil { // if it is nil, Verify uses the system's authorities
		opts.Roots = x509.NewCertPool()
		for _, c := range t.trusted {
			opts.Roots.AddCert(c)
		}
	}
	if _, err := leaf.Verify(opts); err != nil {
		return t.chainProblem(leaf, cs.PeerCertificates, now, err)
	}
	if t.anyName {
		return nil
	}
	for _, name := range names {
		if matchesHost(leaf, name) {
			return nil
		}
	}
	return nameProblem(leaf, names)
}

// chainProblem explains why a certificate chain is not trusted, and how to fix it.
func (t *TLS) chainProblem(leaf *x509.Certificate, chain []*x509.Certificate, now time.Time, err error) error {
	whose := "the server's certificate (" + subject(leaf) + ")"
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired && e.Cert != nil {
		if !bytes.Equal(e.Cert.Raw, leaf.Raw) {
			whose = "the authority that signed the server's certificate (" + subject(e.Cert) + ")"
		}
		return problem(whose+" "+outOfTime(e.Cert, now), err)
	}
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		top := chain[len(chain)-1]
		for _, c := range t.trusted {
			if bytes.Equal(c.RawSubject, top.RawIssuer) && (now.After(c.NotAfter) || now.Before(c.NotBefore)) {
				return problem("the authority that signed the server's certificate ("+subject(c)+") "+
					outOfTime(c, now), err)
			}
		}
		by := "self-signed"
		if !bytes.Equal(leaf.RawIssuer, leaf.RawSubject) {
			by = "issued by " + peer.Printable(top.Issuer.String())
		}
		return problem(whose+" is not signed by a trusted authority: it is "+by+
			"; to trust another authority, use --cacert FILE", err)
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.IncompatibleUsage {
		return problem(whose+" is not valid for servers, according to its extended key usage; "+
			"install another certificate on the server", err)
	}
	return problem(whose+" is not valid: "+strings.TrimPrefix(err.Error(), "x509: "), err)
}

func outOfTime(c *x509.Certificate, now time.Time) string {
	if now.Before(c.NotBefore) {
		return "is not valid before " + c.NotBefore.UTC().Format(time.DateTime) + " UTC; check this machine's clock"
	}
	return "expired on " + c.NotAfter.UTC().Format(time.DateTime) + " UTC; install a new certificate on the server"
}

func nameProblem(leaf *x509.Certificate, names []string) error {
	has := alternatives(leaf)
	for i, n := range has {
		has[i] = peer.Printable(n)
	}
	if len(has) == 0 && !hasAlternatives(leaf) {
		has = []string{peer.Printable(leaf.Subject.CommonName)}
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = peer.Printable(n)
	}
	text := "the server's certificate is for " + strings.Join(has, ", ") + ", not for "
	if strings.Join(has, "") == "" {
		text = "the server's certificate contains no host name, so it is not valid for "
	}
	return problem(text+strings.Join(quoted, " or ")+"; to accept it anyway, set the name to expect with "+
		"--tls-name NAME", nil)
}

func subject(c *x509.Certificate) string { return peer.Printable(c.Subject.String()) }

// alternatives returns the subject alternative names of a certificate: host names and IP
// addresses.
func alternatives(c *x509.Certificate) []string {
	all := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	return all
}

// hasAlternatives reports whether a certificate has subject alternative names of any kind.
func hasAlternatives(c *x509.Certificate) bool {
	return len(c.DNSNames)+len(c.IPAddresses)+len(c.EmailAddresses)+len(c.URIs) > 0
}

// matchesHost reports whether a certificate is for a host. It compares the host with the
// alternative names, or with the common name if there are none, as ZooKeeper's ZKHostnameVerifier
// does. As in crypto/x509, a star matches only a complete leftmost label. ZKHostnameVerifier is
// less strict: it also accepts a star in other positions, and a name that consists only of a star.
func matchesHost(c *x509.Certificate, host string) bool {
	host = strings.TrimSuffix(host, ".")
	if !hasAlternatives(c) {
		if net.ParseIP(host) != nil {
			return c.Subject.CommonName == host
		}
		c = &x509.Certificate{DNSNames: []string{c.Subject.CommonName}}
	}
	return c.VerifyHostname(host) == nil
}
