//go:build !linux && !darwin && !windows

package tty

import "os"

// Session returns an empty string: terminal windows cannot be identified on this system.
func Session() string { return "" }

// Name returns an empty string: the name of a terminal is unknown on this system.
func Name(*os.File) string { return "" }
