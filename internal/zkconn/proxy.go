package zkconn

import (
	"context"
	"net"
	"regexp"
	"strings"
	"sync"

	"github.com/zksh/zksh/internal/zkconn/wire"
)

// CheckProxy returns an error if text is not a valid value of Config.Proxy. The error does not
// quote text, because it may contain a password.
func CheckProxy(text string) error {
	_, err := proxyOf(text)
	return err
}

// ProxyHasPassword reports whether text, a valid value of Config.Proxy, contains a password.
func ProxyHasPassword(text string) bool {
	p, err := proxyOf(text)
	return err == nil && p != nil && p.HasPassword()
}

// proxyOf returns the proxy with the given URL, or nil if the URL is empty.
func proxyOf(text string) (*wire.Proxy, error) {
	if text == "" {
		return nil, nil
	}
	return wire.ParseProxy(text)
}

// userInfo matches the user and password of a proxy's URL. The last @ before the end of the word
// precedes the host, because people forget to escape an @ in a password. It is compiled at its first
// use, so that zksh starts faster.
var userInfo = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)(\bsocks5h?:/*)[^\s"]*@`) })

// ProxySyntax is the form of Config.Proxy, for help texts.
const ProxySyntax = wire.ProxySyntax

// HidePassword replaces the user and password of each proxy's URL in text by an ellipsis. It leaves
// ProxySyntax unchanged.
func HidePassword(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	return userInfo().ReplaceAllStringFunc(text, func(url string) string {
		if strings.HasPrefix(ProxySyntax, url) { // the match ends at the last @ of the URL
			return url
		}
		return userInfo().ReplaceAllString(url, "$1…@")
	})
}

// SameProxy reports whether two sessions connect through the same proxy, or both without one.
// Otherwise the same name can stand for different servers.
func (s *Session) SameProxy(o *Session) bool { return s.current().cfg.Proxy == o.current().cfg.Proxy }

// Dial opens a TCP connection to addr, through the proxy if there is one.
func (en Ensemble) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return en.l.wire.Dial(ctx, network, addr)
}

// LookupHost returns the addresses of a host. With a proxy, it returns only the host itself,
// because the proxy resolves names.
func (en Ensemble) LookupHost(ctx context.Context, host string) ([]string, error) {
	return en.l.wire.LookupHost(ctx, host)
}
