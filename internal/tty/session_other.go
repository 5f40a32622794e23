//go:build !linux && !darwin && !windows

package tty

import "os"

// Session returns an empty string, because zksh can identify a terminal window only on Linux, macOS
// and Windows.
func Session() string { return "" }

// Name returns an empty string, because zksh can determine the name of a terminal only on Linux.
func Name(*os.File) string { return "" }
