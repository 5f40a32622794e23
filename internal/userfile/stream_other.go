//go:build !unix || aix || solaris

package userfile

import (
	"errors"
	"os"
)

const hasStreams = false

// openStream is never called, because no name stands for an open file.
func openStream(int, string) (*os.File, error) { return nil, errors.ErrUnsupported }
