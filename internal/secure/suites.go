package secure

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// versionNames maps Java's names of TLS versions to the constants of crypto/tls.
var versionNames = map[string]uint16{
	"TLSv1": tls.VersionTLS10, "TLSv1.1": tls.VersionTLS11, "TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13,
}

// versions returns the lowest and the highest TLS version to use. The defaults are TLS 1.2 and
// 1.3.
func (a *effectiveSettings) versions() (lowest, highest uint16, err error) {
	names := a.protocols
	if len(names) == 0 && a.protocol != "" && a.protocol != "TLS" && a.protocol != "Default" {
		names = []string{a.protocol}
	}
	if len(names) == 0 {
		return tls.VersionTLS12, tls.VersionTLS13, nil
	}
	var have []uint16
	for _, n := range names {
		v, known := versionNames[n]
		if !known {
			return 0, 0, fmt.Errorf("%s: unknown protocol %q; zksh supports TLSv1.2 and TLSv1.3, "+
				"and TLSv1 and TLSv1.1 for old servers", a.source, n)
		}
		have = append(have, v)
	}
	lowest, highest = slices.Min(have), slices.Max(have)
	for v := lowest; v <= highest; v++ {
		if !slices.Contains(have, v) {
			return 0, 0, fmt.Errorf("%s: %s must also be enabled, because zksh cannot leave out a protocol between "+
				"the lowest and the highest one", a.source, tls.VersionName(v))
		}
	}
	return lowest, highest, nil
}

// restrictSuites allows only the named cipher suites, unless names is empty. crypto/tls has no
// setting for the suites of TLS 1.3, so verify checks the suite of the established connection.
// restrictSuites ignores unknown names, and returns a remark about them for the user.
func (t *TLS) restrictSuites(names []string) (remark string, err error) {
	var lacking []string
	before, since := false, false // whether names contains suites for versions before TLS 1.3, and suites for TLS 1.3
	for _, name := range names {
		if name == "TLS_EMPTY_RENEGOTIATION_INFO_SCSV" { // signals a protocol feature and is not a cipher suite
			continue
		}
		s := findSuite(name)
		if s == nil {
			lacking = append(lacking, name)
			continue
		}
		t.allowed = append(t.allowed, s.ID)
		if slices.Contains(s.SupportedVersions, tls.VersionTLS13) {
			since = true
		} else {
			before = true
			t.suites = append(t.suites, s.ID)
		}
	}
	if len(lacking) > 0 {
		remark = "ignoring cipher suites that zksh does not support: " + strings.Join(lacking, ", ")
	}
	switch {
	case len(names) == 0:
		return "", nil
	case !before && !since:
		return "", fmt.Errorf("zksh does not support any of these cipher suites: %s", strings.Join(names, ", "))
	case !before:
		t.min = tls.VersionTLS13
	case !since:
		t.max = min(t.max, tls.VersionTLS12)
	}
	if t.min > t.max {
		return "", fmt.Errorf("none of the enabled protocols can use these cipher suites: %s",
			strings.Join(names, ", "))
	}
	return remark, nil
}

// findSuite returns the cipher suite with the given name, or nil if crypto/tls does not support
// it. Java uses the same names, except for the prefix SSL_ of suites that are older than TLS.
func findSuite(name string) *tls.CipherSuite {
	name = "TLS_" + strings.TrimPrefix(strings.TrimPrefix(name, "SSL_"), "TLS_")
	for _, s := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if s.Name == name {
			return s
		}
	}
	return nil
}
