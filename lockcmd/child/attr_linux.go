package child

import "syscall"

// childAttr puts the child into a group of its own, and has it killed when we die.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
