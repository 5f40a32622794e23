package child

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// The process id of an ended program stays reserved after waitForChange.
func TestNumberIsHeld(t *testing.T) {
	cmd := exec.Command("true")
	zktest.Must(t, cmd.Start())
	c, err := waitForChange(cmd.Process.Pid)
	if err != nil || c.stopped != 0 || c.status != 0 {
		t.Fatalf("%+v, %v; want its end", c, err)
	}
	if err := syscall.Kill(cmd.Process.Pid, 0); err != nil {
		t.Errorf("the number is free: %v", err)
	}
	zktest.Check(t, cmd.Wait())
}
