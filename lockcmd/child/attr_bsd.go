//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package child

import "syscall"

// childAttr puts the child into a group of its own.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
