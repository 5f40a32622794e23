package zkconn

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
)

// defaultPort is the port of a server named without one.
const defaultPort = 2181

// Servers is a parsed connect string, host[:port][,host[:port]…][/chroot].
type Servers struct {
	Spec   string   // as written
	Hosts  []string // host:port each, IPv6 in brackets
	Chroot string   // "" or a path without a trailing slash
}

// ParseServers reads a connect string by zkCli's rules, and also takes an IPv6
// address without brackets when it stands without a port.
func ParseServers(spec string) (Servers, error) {
	s := Servers{Spec: spec}
	list := spec
	if i := strings.IndexByte(spec, '/'); i >= 0 {
		list, s.Chroot = spec[:i], spec[i:]
		if s.Chroot == "/" {
			s.Chroot = ""
		} else if secondServer.MatchString(s.Chroot) {
			return Servers{}, fmt.Errorf("server %q: the chroot comes once, behind the last server", spec)
		} else if err := ValidatePath(s.Chroot, false); err != nil {
			return Servers{}, fmt.Errorf("server %q: chroot: %w", spec, err)
		}
	}
	for h := range strings.SplitSeq(list, ",") {
		h = strings.TrimSpace(h)
		if h == "" {
			continue
		}
		addr, err := hostPort(h)
		if err != nil {
			return Servers{}, fmt.Errorf("server %q: %w", spec, err)
		}
		s.Hosts = append(s.Hosts, addr)
	}
	if len(s.Hosts) == 0 {
		return Servers{}, fmt.Errorf("server %q names no host; write host[:port][,host[:port]…][/chroot]", spec)
	}
	return s, nil
}

// secondServer is a server that stands behind a chroot.
var secondServer = regexp.MustCompile(`,[^/,]+:\d+`)

// hostPort completes one host with the default port.
func hostPort(h string) (string, error) {
	host, port := h, strconv.Itoa(defaultPort)
	switch {
	case strings.HasPrefix(h, "["):
		end := strings.IndexByte(h, ']')
		if end < 0 {
			return "", fmt.Errorf("%q lacks its closing bracket", h)
		}
		host = h[1:end]
		if rest := h[end+1:]; strings.HasPrefix(rest, ":") {
			port = rest[1:]
		} else if rest != "" {
			return "", fmt.Errorf("unexpected %q after the bracket", rest)
		}
	case strings.Count(h, ":") == 1:
		host, port, _ = strings.Cut(h, ":")
	case strings.Contains(h, ":"):
		if net.ParseIP(h) == nil {
			return "", fmt.Errorf("%q is no IPv6 address; write [address]:port", h)
		}
	}
	if host == "" {
		return "", fmt.Errorf("%q lacks a host name", h)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", fmt.Errorf("%q is no port; it must be from 1 to 65535", port)
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}
