//go:build !linux

package zktest

import (
	"errors"
	"os"
	"syscall"
)

func dieWithParent() *syscall.SysProcAttr { return nil }

func pauseProcess(*os.Process) error  { return errors.ErrUnsupported }
func resumeProcess(*os.Process) error { return errors.ErrUnsupported }
