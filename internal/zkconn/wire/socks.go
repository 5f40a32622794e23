package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"golang.org/x/net/proxy"
)

// A Proxy is a SOCKS5 proxy, through which a Link connects to all servers. The proxy resolves the
// names of the servers.
type Proxy struct {
	addr string      // address of the proxy, as host:port
	auth *proxy.Auth // user and password, or nil if the proxy needs none
}

// defaultSOCKSPort is the port of a proxy whose URL has no port.
const defaultSOCKSPort = "1080"

// ProxySyntax is the form of a proxy's URL, for help texts and errors.
const ProxySyntax = "socks5://[user:password@]host[:port]"

// ParseProxy parses a URL of the form ProxySyntax. The scheme socks5h has
// the same meaning. The errors do not quote the URL, because it may contain a password.
func ParseProxy(text string) (*Proxy, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "socks5" && u.Scheme != "socks5h" || u.Hostname() == "" ||
		u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the proxy must be written as " + ProxySyntax +
			"; escape special characters in the password as in other URLs")
	case len(u.User.Username()) > 255:
		return nil, errors.New("the proxy's user name has more than 255 bytes")
	}
	port := cmp.Or(u.Port(), defaultSOCKSPort)
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("invalid port %q of the proxy: must be between 1 and 65535", port)
	}
	p := &Proxy{addr: net.JoinHostPort(u.Hostname(), port)}
	if u.User != nil {
		password, _ := u.User.Password()
		p.auth = &proxy.Auth{User: u.User.Username(), Password: password}
	}
	return p, nil
}

// HasPassword reports whether zksh authenticates to the proxy with a password.
func (p *Proxy) HasPassword() bool { return p.auth != nil && p.auth.Password != "" }

// A proxyError is the error of a connection that failed at the proxy, or that the proxy could not
// open. It wraps no other error, because a refused connection to the proxy, for example, does not
// show that the server refuses connections.
type proxyError struct{ text string }

// Error returns the address of the proxy and the reason, without the proxy's password.
func (e *proxyError) Error() string { return e.text }

func (p *Proxy) failed(err error) error {
	return &proxyError{fmt.Sprintf("proxy socks5://%s: %s", p.addr, err)}
}

// Dialer returns a function that connects through the proxy, to which it connects with dial.
func (p *Proxy) Dialer(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return p.connect(ctx, dial, network, addr)
	}
}

func (p *Proxy) connect(ctx context.Context, dial DialFunc, network, addr string) (net.Conn, error) {
	c, err := dial(ctx, "tcp", p.addr)
	if err != nil {
		return nil, p.failed(plainCause(err))
	}
	d, err := proxy.SOCKS5("tcp", p.addr, p.auth, over{c})
	if err != nil {
		c.Close()
		return nil, p.failed(err)
	}
	if _, err = d.(proxy.ContextDialer).DialContext(ctx, network, addr); err == nil { // closes c if it fails
		return c, nil
	}
	if ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, p.failed(errors.New("no answer from the proxy within the time limit"))
	}
	reason := strings.TrimPrefix(plainCause(err).Error(), "unknown error ") // package proxy puts this before each reason in a reply
	return nil, p.failed(errors.New("cannot connect to the server: " + reason))
}

// over is a dialer that returns an existing connection.
type over struct{ c net.Conn }

func (o over) Dial(string, string) (net.Conn, error)                         { return o.c, nil }
func (o over) DialContext(context.Context, string, string) (net.Conn, error) { return o.c, nil }

// Dial opens a TCP connection to addr, through the proxy if there is one.
func (l *Link) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return l.cfg.Dial(ctx, network, addr)
}

// LookupHost returns the addresses of a host. With a proxy, it returns only the host itself,
// because the proxy resolves names.
func (l *Link) LookupHost(ctx context.Context, host string) ([]string, error) {
	return l.hosts.resolve(ctx, host)
}

// resolveNothing leaves the resolution of a host name to the proxy.
func resolveNothing(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
