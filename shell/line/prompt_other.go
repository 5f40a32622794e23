//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package line

import (
	"errors"
	"os"
)

// newPromptEditor always fails, because a promptEditor works only on Linux,
// macOS and the BSDs. On Windows, zksh uses a plainEditor instead.
func newPromptEditor(*os.File, *os.File, Assistant, palette, <-chan os.Signal) (Editor, error) {
	return nil, errors.New("line editing is not available on this system")
}
