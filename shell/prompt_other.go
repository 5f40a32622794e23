//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package shell

import (
	"errors"
	"os"
)

// newPromptEditor is for terminals as Unix has them.
func newPromptEditor(_, _ *os.File, _ Assistant) (Editor, error) {
	return nil, errors.New("line editing is not available on this system")
}

// endJob ends a program.
func endJob(p *os.Process) error { return p.Kill() }

// keepModes is for terminals as Unix has them.
func keepModes(*os.File) (putBack func() error) { return func() error { return nil } }
