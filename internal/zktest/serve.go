package zktest

import (
	"path/filepath"
	"slices"
	"strings"
)

// Serve starts a server for a program that is not a test, and returns once the server serves
// clients. The server's files are below dir. The caller must call stop at the end; on Linux, the
// server also ends when the caller's process ends. Unlike the servers for tests, which are tuned
// for a quick start, it runs with Java's default compiler and garbage collector, as in
// production.
func Serve(dir string, opts ...Option) (addr string, stop func(), err error) {
	inst, err := serveProgram(dir, opts)
	if err != nil {
		return "", nil, err
	}
	return inst.addr, inst.stop, nil
}

// ServeSecure is like Serve, but also returns the address for TLS. The options must include
// Secure.
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
		return arg == "-XX:+UseSerialGC" || arg == "-XX:TieredStopAtLevel=1" || strings.HasPrefix(arg, "-XX:SharedArchiveFile=")
	})
	if err := inst.start(); err != nil {
		inst.stop()
		return nil, err
	}
	return inst, nil
}
