//go:build !linux && !darwin && !windows

package tty

import "os"

// Session identifies what runs in one terminal window; it is not known here.
func Session() string { return "" }

// Name is the name of a terminal; it is not known here.
func Name(*os.File) string { return "" }
