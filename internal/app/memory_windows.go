package app

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// machineMemory returns the memory of this machine in bytes.
func machineMemory() int64 {
	proc := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetPhysicallyInstalledSystemMemory")
	var kib uint64
	if ok, _, _ := proc.Call(uintptr(unsafe.Pointer(&kib))); ok == 0 { // the function is missing or has failed
		return unknownMemory
	}
	return int64(kib) << 10
}
