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
