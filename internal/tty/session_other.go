//go:build !linux && !darwin && !windows

package tty

import "os"

// Session returns an empty string, because zksh cannot identify terminal windows on this system.
func Session() string { return "" }

// Name returns an empty string, because the name of a terminal is unknown on this system.
func Name(*os.File) string { return "" }
