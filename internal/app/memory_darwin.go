package app

import "golang.org/x/sys/unix"

// machineMemory returns the memory of this machine in bytes.
func machineMemory() int64 {
	memory, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return unknownMemory
	}
	return int64(memory)
}
