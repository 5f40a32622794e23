package secure

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

// crypto/tls does not verify names that stand in the subject alone, but Java does, and
// ZooKeeper's own guide makes such certificates. So verify does all of it, and
// InsecureSkipVerify is set only to have crypto/tls leave it to us.

// verify looks at the server's certificate: its chain, and that it has one of these
// names.
func (t *TLS) verify(cs tls.ConnectionState, names []string) error {
	if len(t.allowed) > 0 && !slices.Contains(t.allowed, cs.CipherSuite) {
		return problem("the server chose the cipher suite "+tls.CipherSuiteName(cs.CipherSuite)+", which the client configuration does not allow", nil)
	}
	if t.insecure {
		return nil
	}
	if len(cs.PeerCertificates) == 0 {
		return problem("the server sent no certificate", nil)
	}
	leaf := cs.PeerCertificates[0]
	now := time.Now()
	opts := x509.VerifyOptions{CurrentTime: now, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, c := range cs.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	if t.trusted != nil { // otherwise the system's
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
		if named(leaf, name) {
			return nil
		}
	}
	return nameProblem(leaf, names)
}

// chainProblem words why a chain is not trusted, and the way out.
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
				return problem("the authority that signed the server's certificate ("+subject(c)+") "+outOfTime(c, now), err)
			}
		}
		by := "self-signed"
		if !bytes.Equal(leaf.RawIssuer, leaf.RawSubject) {
			by = "issued by " + name(top.Issuer.String())
		}
		return problem(whose+" is not signed by a trusted authority: it is "+by+"; to trust another authority, use --cacert FILE", err)
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.IncompatibleUsage {
		return problem(whose+" is not valid for servers, according to its extended key usage; install another certificate on the server", err)
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
		has[i] = name(n)
	}
	if len(has) == 0 && !hasAlternatives(leaf) {
		has = []string{name(leaf.Subject.CommonName)}
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = name(n)
	}
	text := "the server's certificate is for " + strings.Join(has, ", ") + ", not for "
	if strings.Join(has, "") == "" {
		text = "the server's certificate contains no host name, so it is not valid for "
	}
	return problem(text+strings.Join(quoted, " or ")+"; to accept it anyway, set the name to expect with --tls-name NAME", nil)
}

// name makes what a certificate says printable.
func name(s string) string {
	q := fmt.Sprintf("%q", s)
	return q[1 : len(q)-1]
}

func subject(c *x509.Certificate) string { return name(c.Subject.String()) }

// alternatives are the names and addresses in a certificate's extension.
func alternatives(c *x509.Certificate) []string {
	all := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	return all
}

// hasAlternatives is true as well for a certificate that has names of other kinds.
func hasAlternatives(c *x509.Certificate) bool {
	return len(c.DNSNames)+len(c.IPAddresses)+len(c.EmailAddresses)+len(c.URIs) > 0
}

// named reports whether a certificate is for a host: by its alternative names, and only if
// there are none by the common name, as ZooKeeper's ZKHostnameVerifier does. A star stands
// for the whole leftmost label, as crypto/x509 has it. ZKHostnameVerifier accepts a star
// anywhere, even alone, where it stands for every name without a dot; that is more than the
// authority of such a certificate can have meant.
func named(c *x509.Certificate, host string) bool {
	host = strings.TrimSuffix(host, ".")
	if !hasAlternatives(c) {
		if net.ParseIP(host) != nil {
			return c.Subject.CommonName == host
		}
		c = &x509.Certificate{DNSNames: []string{c.Subject.CommonName}}
	}
	return c.VerifyHostname(host) == nil
}
