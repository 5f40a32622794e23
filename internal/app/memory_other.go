//go:build !linux && !darwin && !windows

package app

// machineMemory returns an estimate of this machine's memory in bytes.
func machineMemory() int64 { return unknownMemory }
