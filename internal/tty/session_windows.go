package tty

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// Session identifies the program that has started this one, such as a shell in a window, also
// after its number has been given to another one. It is empty where that is not known.
func Session() string {
	parent := os.Getppid()
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(parent))
	if err != nil { // it is gone
		return ""
	}
	var start, exit, kernel, user windows.Filetime
	err = windows.GetProcessTimes(h, &start, &exit, &kernel, &user)
	if closeErr := windows.CloseHandle(h); err != nil || closeErr != nil {
		return ""
	}
	return fmt.Sprintf("%d %d", parent, start.Nanoseconds())
}

// Name is the name of a terminal; it is not known here.
func Name(*os.File) string { return "" }
