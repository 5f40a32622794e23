//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package tty

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// printSession is the main function of the program that TestSession starts.
func printSession() error {
	fmt.Print(Session())
	return nil
}

// Programs in one terminal session have the same identity. A program that starts a session of its
// own has another one.
func TestSession(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("it is not known here")
	}
	session := func(attr *syscall.SysProcAttr) string {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.SysProcAttr = append(os.Environ(), roleVariable+"=session"), attr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	first, again, own := session(nil), session(&syscall.SysProcAttr{Setpgid: true}), session(&syscall.SysProcAttr{Setsid: true})
	if first != again || first != Session() {
		t.Errorf("one session is %q, %q and %q", first, again, Session())
	}
	if own == "" || own == first {
		t.Errorf("a session of its own is %q, after %q", own, first)
	}
}

func TestName(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it is not known here")
	}
	_, terminal := open(t)
	if got, want := Name(terminal), terminal.Name(); filepath.Join("/dev", got) != want || got == "" {
		t.Errorf("%q, want that of %s", got, want)
	}
	if got := Name(file(t)); got != "" {
		t.Errorf("a file has the name %q", got)
	}
}
