package zktest

import (
	"path/filepath"
	"slices"
	"strings"
)

// Serve starts a ZooKeeper server for a program that is not a test, and returns once the server
// accepts requests. The server's files are below dir.
//
// The caller must call stop at the end. On Linux, the server also ends with the calling process.
// Like a server in production, it runs with Java's default compiler and garbage collector. Servers
// for tests use a different compiler and garbage collector, because they must start quickly.
func Serve(dir string, opts ...Option) (addr string, stop func(), err error) {
	inst, err := serveProgram(dir, opts)
	if err != nil {
		return "", nil, err
	}
	return inst.addr, inst.stop, nil
}

// ServeSecure is like Serve, but also returns the address for clients with TLS. The options must
// include Secure.
func ServeSecure(dir string, opts ...Option) (addr, secure string, stop func(), err error) {
	inst, err := serveProgram(dir, opts)
	if err != nil {
		return "", "", nil, err
	}
	return inst.addr, inst.secure, inst.stop, nil
}

func serveProgram(dir string, opts []Option) (*instance, error) {
	c := newConfig(opts)
	if err := installed(c); err != nil {
		return nil, err
	}
	made, err := prepare(filepath.Join(dir, "1"), c)
	if err != nil {
		return nil, err
	}
	inst := made[0]
	inst.args = slices.DeleteFunc(inst.args, func(arg string) bool {
		return arg == "-XX:+UseSerialGC" || arg == "-XX:TieredStopAtLevel=1" ||
			strings.HasPrefix(arg, "-XX:SharedArchiveFile=")
	})
	if err := inst.start(); err != nil {
		inst.stop()
		return nil, err
	}
	return inst, nil
}
