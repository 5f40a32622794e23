package zktest

// Serve starts a server for a program that is not a test, with its files below
// dir, and returns once it serves clients. The caller stops it; where the system
// allows, it also ends with the caller's process.
func Serve(dir string, opts ...Option) (addr string, stop func(), err error) {
	inst, _, err := launch(dir, opts)
	if err != nil {
		return "", nil, err
	}
	return inst.addr, inst.stop, nil
}
