//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package line

import (
	"errors"
	"os"
)

// newPrompt is for terminals as Unix has them.
func newPrompt(*os.File, *os.File, Assistant, bool, <-chan os.Signal) (Editor, error) {
	return nil, errors.New("line editing is not available on this system")
}
