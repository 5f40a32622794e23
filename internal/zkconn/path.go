package zkconn

import (
	"errors"
	"strconv"
	"strings"

	"github.com/zksh/zksh/internal/jute"
)

// ValidatePath checks a path by the rules of the Java client (PathUtils.validatePath)
// and words the failure as it does; positions count UTF-16 units from 0. For a
// sequential create the name still grows, so a trailing slash is allowed.
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

// Join puts a name below a path.
func Join(path, name string) string { return strings.TrimSuffix(path, "/") + "/" + name }

// chroot is what a server's paths have before a client's: "", or a path without
// a trailing slash.
type chroot string

// server puts the chroot before a path.
func (c chroot) server(path string) string {
	if path == "/" && c != "" {
		return string(c)
	}
	return string(c) + path
}

// client takes the chroot off a server's path; a path outside it stays.
func (c chroot) client(path string) string {
	switch {
	case c == "" || !c.holds(path):
		return path
	case path == string(c):
		return "/"
	}
	return path[len(c):]
}

// clients is client for a list, which it changes.
func (c chroot) clients(paths []string) []string {
	for i, p := range paths {
		paths[i] = c.client(p)
	}
	return paths
}

// holds tells whether a server's path is the chroot or below it.
func (c chroot) holds(path string) bool {
	rest, ok := strings.CutPrefix(path, string(c))
	return ok && (c == "" || rest == "" || rest[0] == '/')
}

// refusal is a server's answer to an operation on a path. Where it says that
// there is no root, or none to create in, the chroot itself is missing.
func (c chroot) refusal(code Code, op int32, path string) *Error {
	e := &Error{Code: code, Path: path}
	if code == NoNode && (path == "/" || jute.Creates(op) && strings.LastIndexByte(path, '/') == 0) {
		e.Chroot = string(c)
	}
	return e
}
