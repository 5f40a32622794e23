package app

import (
	"strings"
	"testing"
)

// Errors about options and about the configuration do not contain the password of a proxy.
func TestProxyErrorsHidePassword(t *testing.T) {
	const url = "socks5://ann:sesame@h:1"
	for _, c := range []struct {
		config string
		args   []string
	}{
		{"proxi = " + url + "\n", nil},
		{"proxy = " + url + "/x\n", nil},
		{"", []string{"--proxi=" + url}},
		{"", []string{"--timeout=" + url}},
	} {
		if _, err := parse(t, c.config, "", c.args...); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// --proxy applies to all ensembles, and the setting proxy only to its own.
func TestProxyOfOtherEnsembles(t *testing.T) {
	const config = "proxy = socks5://top\n[a]\nserver = a\nproxy = socks5://a\n[b]\nserver = b\n"
	for _, c := range []struct {
		args             []string
		own, a, b, other string
	}{
		{[]string{"ls"}, "socks5://top", "socks5://a", "", "socks5://top"},
		{[]string{"@a", "ls"}, "socks5://a", "socks5://a", "", "socks5://top"},
		{[]string{"@b", "ls"}, "", "socks5://a", "", "socks5://top"},
		{[]string{"--proxy", "socks5://given", "@b", "ls"}, "socks5://given", "socks5://given", "socks5://given", "socks5://given"},
		{[]string{"--proxy", "", "@a", "ls"}, "", "", "", ""},
		{[]string{"--sandbox", "ls"}, "", "socks5://a", "", "socks5://top"},
	} {
		o, err := parse(t, config, "", c.args...)
		if err != nil {
			t.Fatal(err)
		}
		own := o.Connection()
		got := []string{own.Proxy}
		for _, spec := range []string{"@a", "@b", "other:1"} {
			cfg, err := own.Resolve(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, cfg.Proxy)
		}
		if want := []string{c.own, c.a, c.b, c.other}; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q: %q, want %q", c.args, got, want)
		}
	}
}

// The error about a malformed --proxy shows the form of the URL, although it looks like a URL with a
// password.
func TestMalformedProxy(t *testing.T) {
	const want = "the proxy must be written as socks5://[user:password@]host[:port]; "
	for _, url := range []string{"http://x", "x", "socks5://ann:sesame@h:1/x"} {
		if _, err := parse(t, "", "", "--proxy", url, "ls", "/"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
