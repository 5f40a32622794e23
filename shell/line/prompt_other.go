//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package line

import (
	"errors"
	"os"
)

// newPrompt is for terminals as Unix has them.
func newPrompt(_, _ *os.File, _ Assistant, _ bool) (Editor, error) {
	return nil, errors.New("line editing is not available on this system")
}
