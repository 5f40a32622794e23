package zktest

// Serve starts a ZooKeeper server for a benchmark or another program that is not a test, and returns
// once the server accepts requests. The server's files are below dir. secure is the address for
// clients with TLS, or empty without the option Secure.
//
// The caller must call stop at the end. On Linux, the server also ends with the calling process.
// Like a server in production, it runs with Java's default compiler and garbage collector. Servers
// for tests use a different compiler and garbage collector, because they must start quickly.
func Serve(dir string, opts ...Option) (addr, secure string, stop func(), err error) {
	c := newConfig(opts)
	c.production = true
	made, err := launch(dir, c)
	if err != nil {
		return "", "", nil, err
	}
	return made[0].addr, made[0].secure, made[0].stop, nil
}
