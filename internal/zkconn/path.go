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

// ValidatePath checks a path by the rules of the Java client (PathUtils.validatePath). The errors
// have the Java client's texts, in which positions count UTF-16 units from 0. If sequential is
// true, the path is for a sequential create. It may then end with a slash, because the server
// appends a number.
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
		const quote = `"` // as in Java, the path between the quotes is not escaped
		return errors.New("Invalid path string " + quote + path + quote + " caused by " + why + " @" + strconv.Itoa(i))
	}
	return nil
}

// Join returns the path of the child with this name below the znode at path.
func Join(path, name string) string { return strings.TrimSuffix(path, "/") + "/" + name }

// A chroot is the path of the znode that the user sees as the root. zksh adds it to the front of
// the user's paths before it sends them to the server. It has no trailing slash, and it is empty
// if there is no chroot.
type chroot string

// server adds the chroot to a path that the user wrote, and returns the path on the server.
func (c chroot) server(path string) string {
	if path == "/" && c != "" {
		return string(c)
	}
	return string(c) + path
}

// client removes the chroot from a path on the server, and returns the path that the user sees. It
// returns a path outside the chroot unchanged.
func (c chroot) client(path string) string {
	switch {
	case c == "" || !c.holds(path):
		return path
	case path == string(c):
		return "/"
	}
	return path[len(c):]
}

// clients replaces each path on the server with the path that client returns for it. It changes and
// returns the given slice.
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

// refusal returns the error for an operation that a server rejected with the given error code. If
// the code says that the root, or a parent "/", does not exist, the chroot itself is missing.
func (c chroot) refusal(code Code, op kind) *Error {
	e := &Error{Code: code, Path: op.path, hint: hint(code, op.code)}
	parent := strings.LastIndexByte(op.path, '/')
	switch {
	case code == BadVersion && versionKinds[op.code] != "" && op.version != -1:
		e.Versions = &Versions{Of: versionKinds[op.code], Expected: op.version}
	case code == NoNode && (op.path == "/" || jute.Creates(op.code) && parent == 0):
		e.Chroot = string(c)
	case code == NoNode && jute.Creates(op.code) && parent > 0:
		e.hint = "its parent " + op.path[:parent] + " does not exist"
	}
	return e
}

// defaultPort is the port of a server whose address in a connect string has no port.
const defaultPort = 2181

// Servers is a parsed connect string, host[:port][,host[:port]…][/chroot].
type Servers struct {
	Spec   string   // the complete connect string
	Hosts  []string // addresses of the servers as host:port, with IPv6 addresses in brackets
	Chroot string   // path without a trailing slash; empty if there is no chroot
}

// Overlap reports whether two lists of hosts have an element in common. The lists must have the
// form of Servers.Hosts, or contain resolved addresses. Connect strings with a common host count
// as one ensemble.
func Overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(host string) bool { return slices.Contains(b, host) })
}

// ParseServers parses a connect string by zkCli's rules. In addition, it accepts an IPv6 address
// without brackets if the address has no port.
func ParseServers(spec string) (Servers, error) {
	s := Servers{Spec: spec}
	list := spec
	if scheme, _, found := strings.Cut(spec, "://"); found { // the rest may contain a password
		return Servers{}, fmt.Errorf("server \"%s://…\" is a URL; write the servers as host[:port][,host[:port]…][/chroot]", scheme)
	}
	if i := strings.IndexByte(list, '/'); i >= 0 {
		list, s.Chroot = list[:i], list[i:]
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

// secondServer matches another server after a chroot in a connect string, as in
// host1:2181/app,host2:2181/app.
var secondServer = regexp.MustCompile(`,[^/,]+:\d+`)

// hostPort parses a host with an optional port, and returns it as host:port. Without a port it
// adds the default port.
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
