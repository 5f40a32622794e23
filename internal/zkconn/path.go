package zkconn

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// ValidatePath checks a path by the rules of the Java client (PathUtils.validatePath), and returns
// its messages; positions count UTF-16 units from 0. A path for a sequential create may end with
// a slash, because the server appends a number.
func ValidatePath(path string, sequential bool) error {
	if path == "" {
		return errors.New("Path length must be > 0")
	}
	if path[0] != '/' {
		return errors.New("Path must start with / character")
	}
	if sequential {
		path += "1"
	}
	if path == "/" {
		return nil
	}
	if strings.HasSuffix(path, "/") {
		return errors.New("Path must not end with / character")
	}
	if i, why := jute.PathFault(path); why != "" {
		if sequential {
			path = path[:len(path)-1]
		}
		const quote = `"` // nothing between them is escaped
		return errors.New("Invalid path string " + quote + path + quote + " caused by " + why + " @" + strconv.Itoa(i))
	}
	return nil
}

// Join returns the path of the child called name.
func Join(path, name string) string { return strings.TrimSuffix(path, "/") + "/" + name }

// A chroot is the prefix of a server's path that a client does not see: "", or a path without a
// trailing slash.
type chroot string

// server returns the server's path for a client's path.
func (c chroot) server(path string) string {
	if path == "/" && c != "" {
		return string(c)
	}
	return string(c) + path
}

// client returns the client's path for a server's path. It does not change a path outside the
// chroot.
func (c chroot) client(path string) string {
	switch {
	case c == "" || !c.holds(path):
		return path
	case path == string(c):
		return "/"
	}
	return path[len(c):]
}

// clients applies client to each path, in place, and returns the slice.
func (c chroot) clients(paths []string) []string {
	for i, p := range paths {
		paths[i] = c.client(p)
	}
	return paths
}

// holds reports whether a server's path is the chroot or a descendant of it.
func (c chroot) holds(path string) bool {
	rest, ok := strings.CutPrefix(path, string(c))
	return ok && (c == "" || rest == "" || rest[0] == '/')
}

// refusal returns the error for a server's refusal of an operation on a path. If the server says
// that the root, or the parent "/", does not exist, the chroot itself is missing.
func (c chroot) refusal(code Code, op int32, path string) *Error {
	e := &Error{Code: code, Path: path, hint: hint(code, op)}
	if code == NoNode && (path == "/" || jute.Creates(op) && strings.LastIndexByte(path, '/') == 0) {
		e.Chroot = string(c)
	}
	return e
}

// defaultPort is the port of a server whose address has none.
const defaultPort = 2181

// Servers is a parsed connect string, host[:port][,host[:port]…][/chroot].
type Servers struct {
	Spec   string   // the connect string itself
	Hosts  []string // host:port each, IPv6 in brackets
	Chroot string   // "" or a path without a trailing slash
}

// Overlap reports whether two lists have a host in common, in the form of Servers.Hosts or as
// addresses. Connect strings with a common host count as one ensemble.
func Overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(host string) bool { return slices.Contains(b, host) })
}

// ParseServers parses a connect string by zkCli's rules. It also accepts an IPv6 address without
// brackets if it has no port.
func ParseServers(spec string) (Servers, error) {
	if strings.HasPrefix(spec, "dns-srv://") {
		return Servers{}, fmt.Errorf("server %q: DNS SRV records are not supported; write the servers as host[:port][,host[:port]…][/chroot]", spec)
	}
	s := Servers{Spec: spec}
	list := spec
	if i := strings.IndexByte(spec, '/'); i >= 0 {
		list, s.Chroot = spec[:i], spec[i:]
		if s.Chroot == "/" {
			s.Chroot = ""
		} else if secondServer.MatchString(s.Chroot) {
			return Servers{}, fmt.Errorf("server %q: specify the chroot only once, after the last server", spec)
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
		return Servers{}, fmt.Errorf("server %q: the connect string contains no host; write the servers as host[:port][,host[:port]…][/chroot]", spec)
	}
	return s, nil
}

// secondServer matches a server after a chroot.
var secondServer = regexp.MustCompile(`,[^/,]+:\d+`)

// hostPort returns a host with its port, or the default port.
func hostPort(h string) (string, error) {
	host, port := h, strconv.Itoa(defaultPort)
	switch {
	case strings.HasPrefix(h, "["):
		end := strings.IndexByte(h, ']')
		if end < 0 {
			return "", fmt.Errorf("%q has no closing bracket", h)
		}
		host = h[1:end]
		if rest := h[end+1:]; strings.HasPrefix(rest, ":") {
			port = rest[1:]
		} else if rest != "" {
			return "", fmt.Errorf("unexpected %q after the closing bracket", rest)
		}
	case strings.Count(h, ":") == 1:
		host, port, _ = strings.Cut(h, ":")
	case strings.Contains(h, ":"):
		if net.ParseIP(h) == nil {
			return "", fmt.Errorf("%q is not a valid IPv6 address; to add a port to an address, write [address]:port", h)
		}
	}
	if host == "" {
		return "", fmt.Errorf("%q has no host name", h)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", fmt.Errorf("invalid port %q: must be between 1 and 65535", port)
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}
