//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package shell

import "os"

// endJob ends a program.
func endJob(p *os.Process) error { return p.Kill() }
