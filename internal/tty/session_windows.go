package tty

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// Session returns an identifier of the parent process, which is usually the shell in a console
// window. The identifier contains the parent's start time, because Windows reuses process IDs. It
// is empty if the parent is unknown.
func Session() string {
	parent := os.Getppid()
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(parent))
	if err != nil { // the parent has ended
		return ""
	}
	var start, exit, kernel, user windows.Filetime
	err = windows.GetProcessTimes(h, &start, &exit, &kernel, &user)
	if closeErr := windows.CloseHandle(h); err != nil || closeErr != nil {
		return ""
	}
	return fmt.Sprintf("%d %d", parent, start.Nanoseconds())
}

// Name returns an empty string, because zksh does not determine the name of a console on Windows.
func Name(*os.File) string { return "" }
