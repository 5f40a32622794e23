//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package tty

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/zktest"
)

// roleVariable is an environment variable. It makes the test program act as the shell of a
// terminal, as a job of that shell, or as a program that prints its session.
const roleVariable = "ZKSH_TEST_TERMINAL"

func TestMain(m *testing.M) {
	do := map[string]func() error{"shell": runJob, "job": changeJobs, "session": printSession}[os.Getenv(roleVariable)]
	if do == nil {
		os.Exit(m.Run())
	}
	if err := do(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// runJob runs the job in the foreground, as a shell would. A job without a shell could not be
// stopped, so the test would notice nothing.
func runJob() error {
	job := exec.Command(os.Args[0])
	job.Env = append(os.Environ(), roleVariable+"=job")
	job.Stdin, job.Stdout, job.Stderr = os.Stdin, os.Stdout, os.Stderr
	job.SysProcAttr = &syscall.SysProcAttr{Foreground: true} // implies a process group of its own
	if err := job.Start(); err != nil {
		return err
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(job.Process.Pid, &status, unix.WUNTRACED, nil); err != nil {
		return err
	}
	if status.Stopped() {
		return errors.Join(fmt.Errorf("stopped by %v", status.StopSignal()), job.Process.Kill())
	}
	if !status.Exited() || status.ExitStatus() != 0 {
		return fmt.Errorf("ended with %x", status)
	}
	return SetForeground(os.Stdin, unix.Getpgrp()) // the job has left us in the background
}

// open opens a pseudoterminal. It exists as long as the keyboard end is open.
func open(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, terminal, err := pty.Open()
	zktest.Must(t, err)
	t.Cleanup(func() { _, _ = keyboard.Close(), terminal.Close() }) // errors: a test may have closed one of them
	return keyboard, terminal
}

func file(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	zktest.Must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestSize(t *testing.T) {
	_, terminal := open(t)
	for _, size := range [][2]uint16{{80, 24}, {1, 1}, {0, 0}, {80, 0}, {0, 24}} {
		zktest.Must(t, pty.Setsize(terminal, &pty.Winsize{Cols: size[0], Rows: size[1]}))
		want := size
		if size[0]*size[1] == 0 {
			want = [2]uint16{}
		}
		if columns, rows := Size(terminal); columns != int(want[0]) || rows != int(want[1]) {
			t.Errorf("%v: %d columns and %d rows", size, columns, rows)
		}
	}
	f := file(t)
	if columns, rows := Size(f); columns != 0 || rows != 0 {
		t.Errorf("a file has %d columns and %d rows", columns, rows)
	}
	if !Is(terminal) || Is(f) {
		t.Errorf("a terminal is one: %v; a file: %v", Is(terminal), Is(f))
	}
}

func echoes(t *testing.T, terminal *os.File) bool {
	t.Helper()
	m, err := GetModes(terminal)
	zktest.Must(t, err)
	return m.Lflag&unix.ECHO != 0
}

func setEcho(f *os.File, on bool) error {
	m, err := GetModes(f)
	if err != nil {
		return err
	}
	m.Lflag &^= unix.ECHO
	if on {
		m.Lflag |= unix.ECHO
	}
	return SetModes(f, m)
}

func TestModes(t *testing.T) {
	_, terminal := open(t)
	putBack := KeepModes(terminal)
	for _, on := range []bool{false, true, false} {
		if err := setEcho(terminal, on); err != nil || echoes(t, terminal) != on {
			t.Fatalf("echo is not %v: %v", on, err)
		}
	}
	if err := putBack(); err != nil || !echoes(t, terminal) {
		t.Errorf("the modes are not put back: %v", err)
	}
	f := file(t)
	if _, err := GetModes(f); err == nil {
		t.Error("a file has modes")
	}
	if err := KeepModes(f)(); err != nil {
		t.Errorf("a file has modes to put back: %v", err)
	}
}

// Setting the modes of a terminal that has hung up is not an error.
func TestModesOfTheGone(t *testing.T) {
	keyboard, terminal := open(t)
	putBack := KeepModes(terminal)
	modes, err := GetModes(terminal)
	zktest.Must(t, err)
	zktest.Must(t, keyboard.Close())
	zktest.Check(t, errors.Join(SetModes(terminal, modes), putBack()))
	zktest.Must(t, terminal.Close())
	if err := UnlessGone(syscall.EBADF); err == nil {
		t.Error("a file that is not open counts as gone")
	}
}

// TestJobs runs changeJobs with a controlling terminal.
func TestJobs(t *testing.T) {
	cmd := exec.CommandContext(zktest.Within(t), os.Args[0]) // if a step stops the program, the test times out
	cmd.Env = append(os.Environ(), roleVariable+"=shell")
	terminal, err := pty.Start(cmd)
	zktest.Must(t, err)
	defer terminal.Close()
	out, _ := io.ReadAll(terminal) // on Linux, reading ends with an error instead of io.EOF
	if err := cmd.Wait(); err != nil || strings.TrimSpace(string(out)) != "all is well" {
		t.Errorf("%v: %s", err, out)
	}
}

// changeJobs puts another job into the foreground of the terminal, and then itself again. A step
// without Quietly would stop this process.
func changeJobs() error {
	f := os.Stdin
	ours := unix.Getpgrp()
	if group, err := Foreground(f); err != nil || group != ours {
		return fmt.Errorf("the foreground is %d, %v, not %d", group, err, ours)
	}
	job := exec.Command("sleep", "60")
	job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := job.Start(); err != nil {
		return err
	}
	defer func() {
		_ = job.Process.Kill()
		_ = job.Wait() // it was killed
	}()
	putBack := KeepModes(f)
	if err := errors.Join(setEcho(f, false), SetForeground(f, job.Process.Pid)); err != nil {
		return err
	}
	if group, err := Foreground(f); err != nil || group != job.Process.Pid {
		return fmt.Errorf("the foreground is %d, %v, not the job", group, err)
	}
	modes, err := GetModes(f)
	if err = errors.Join(err, putBack()); err != nil {
		return err
	}
	if now, err := GetModes(f); err != nil || *now != *modes {
		return fmt.Errorf("another job's modes were changed: %v", err)
	}
	if err := SetForeground(f, ours); err != nil {
		return err
	}
	if group, err := Foreground(f); err != nil || group != ours {
		return fmt.Errorf("the foreground is %d, %v, not ours again", group, err)
	}
	if err := putBack(); err != nil {
		return err
	}
	if now, err := GetModes(f); err != nil || now.Lflag&unix.ECHO == 0 {
		return fmt.Errorf("the modes were not put back: %v", err)
	}
	failure := errors.New("failure")
	if err := Quietly(func() error { return failure }); err != failure {
		return fmt.Errorf("Quietly returns %v", err)
	}
	_, err = fmt.Println("all is well")
	return err
}
