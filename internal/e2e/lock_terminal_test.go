//go:build linux

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// A job is an interactive bash whose user runs a command under a lock.
type job struct {
	*richConsole
	dir    string
	prefix string // what the user types before the command
	server string
}

// openJob starts a bash. The prefix is "zksh … lock /l --", or that of flock.
func openJob(t *testing.T, flock bool) *job {
	t.Helper()
	zktest.NeedProgram(t, "bash", "bash")
	j := &job{dir: t.TempDir(), server: zktest.Sandbox(t, sandbox.Options{}).Addr()}
	j.prefix = "zksh -q -server " + j.server + " lock /l -- "
	if flock {
		zktest.NeedProgram(t, "flock", "util-linux")
		j.prefix = "flock " + filepath.Join(j.dir, "lock") + " "
	}
	j.richConsole = startRich(t, exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i"), "PS1=$ ", "PS2=> ")
	j.expect(`\$ $`)
	return j
}

// run types a line, with P in place of the prefix, and waits until the output matches pattern.
func (j *job) run(line, pattern string) {
	j.t.Helper()
	j.typeIn(regexp.MustCompile(`\bP\b`).ReplaceAllString(line, j.prefix) + "\n")
	j.expect(pattern)
}

// wantStatus waits for the prompt, and checks the status of the last command.
func (j *job) wantStatus(want int) {
	j.t.Helper()
	j.run("", `\$ $`) // an empty line, after what the keys have left
	j.run("echo status $?.", fmt.Sprintf(`status %d\.\r\n`, want))
}

// script writes a script to a file, with P in place of the prefix, and returns the name of the file.
func (j *job) script(text string) string {
	j.t.Helper()
	name := filepath.Join(j.dir, "script")
	text = regexp.MustCompile(`\bP\b`).ReplaceAllString(text, j.prefix)
	zktest.Must(j.t, os.WriteFile(name, []byte(text), 0o700))
	return name
}

// pid waits until a process has written its pid to a file, and returns the pid.
func (j *job) pid(name string) (pid int) {
	j.t.Helper()
	zktest.Eventually(j.t, "the pid in "+name, func() bool {
		text, err := os.ReadFile(name)
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return pid
}

// foreground returns the process group in the foreground of the terminal.
func (j *job) foreground() int {
	j.t.Helper()
	raw, err := j.tty.SyscallConn() // the method Fd would make the terminal block
	zktest.Must(j.t, err)
	group := 0
	zktest.Must(j.t, raw.Control(func(fd uintptr) { group, err = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) }))
	zktest.Must(j.t, err)
	return group
}

// hangUp closes the terminal.
func (j *job) hangUp() {
	j.t.Helper()
	zktest.Must(j.t, j.tty.Close()) // takes effect when the reader of the output looks for more
	_, err := j.slave.WriteString("\n")
	zktest.Must(j.t, err)
	zktest.Must(j.t, j.slave.Close())
}

// bothWays runs a test under flock and under zksh.
func bothWays(t *testing.T, test func(t *testing.T, j *job)) {
	for _, flock := range []bool{true, false} {
		t.Run(map[bool]string{true: "flock", false: "zksh"}[flock], func(t *testing.T) {
			t.Parallel()
			test(t, openJob(t, flock))
		})
	}
}

// Keys in the terminal have the same effect under zksh as under flock.
func TestKeysUnderALock(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, j *job){
		"Ctrl-C ends the command": func(t *testing.T, j *job) {
			j.run(`P sh -c 'echo be""gun; exec sleep 30'`, "begun\r\n")
			j.typeIn("\x03")
			j.expect(`\$ $`)
			j.run("echo status $?.", `status 130\.\r\n`)
		},
		`Ctrl-\ ends the command`: func(t *testing.T, j *job) {
			j.run(`ulimit -c 0; P sh -c 'echo be""gun; exec sleep 30'`, "begun\r\n")
			j.typeIn("\x1c")
			j.expect(`\$ $`)
			j.run("echo status $?.", `status 131\.\r\n`)
		},
		"Ctrl-C ends a loop at the prompt": func(t *testing.T, j *job) {
			j.run(`for i in 1 2 3; do P sh -c 'echo be""gun'$i'; exec sleep 30'; done`, "begun1\r\n")
			j.typeIn("\x03")
			j.expect(`\$ $`)
			if j.run("echo status $?.", `status 130\.\r\n`); strings.Contains(j.shown(), "begun2") {
				t.Error("the loop goes on")
			}
		},
		"Ctrl-C ends a bash script":                 loopEnds("bash", ""),
		"Ctrl-C ends a sh script":                   loopEnds("sh", ""),
		"Ctrl-C ends a script with a pipe":          loopEnds("bash", "| cat"),
		"Ctrl-C ends a script without its output":   loopEnds("bash", ">/dev/tty </dev/null"),
		"Ctrl-C ends a script that captures output": loopEnds("bash", "captured"),
		"the command reads the terminal": func(t *testing.T, j *job) {
			j.run(`P sh -c 'echo be""gun; read x; echo got:$x; exit 3'`, "begun\r\n")
			j.typeIn("hello\n")
			j.expect("got:hello\r\n")
			j.wantStatus(3)
		},
		"the command reads at once, many times": func(t *testing.T, j *job) {
			j.run(`for i in 1 2 3 4 5; do P sh -c 'read x </dev/tty; echo got:$x:'$i; done; echo en""d`, "\n")
			for i := range 5 {
				j.typeIn("line\n")
				j.expect(fmt.Sprintf("got:line:%d\r\n", i+1))
			}
			j.expect("end\r\n")
		},
		"in the background": func(t *testing.T, j *job) {
			j.run(`P sh -c 'exit 4' & wait $!; echo status $?.`, `status 4\.\r\n`)
		},
		"in the background, then fg": func(t *testing.T, j *job) {
			j.run(`P sh -c 'echo be""gun; exec sleep 30' &`, "begun\r\n")
			j.run("fg", "sleep 30'\r\n")
			zktest.Eventually(t, "the job has the terminal", func() bool { return j.foreground() != j.cmd.Process.Pid })
			j.typeIn("\x03")
			j.expect(`\$ $`)
			j.run("echo status $?.", `status 130\.\r\n`)
		},
		"in a pipeline": func(t *testing.T, j *job) {
			j.run(`echo abc | P tr a-c A-C | cat; echo status ${PIPESTATUS[1]}.`, `ABC\r\nstatus 0\.\r\n`)
		},
		"the modes of the terminal stay those of a command that ends": func(t *testing.T, j *job) {
			j.run(`P stty -echo; stty -a | tr ' ;' '\n\n' | grep -x -e -echo`, `-echo\r\n`)
			j.run("stty echo", `\$ $`)
		},
		"background reader, then fg": func(t *testing.T, j *job) {
			j.run(`P sh -c 'echo $$ > `+j.dir+`/pid; read x </dev/tty; echo got:$x; exit 4' &`, `\$ $`)
			pid := j.pid(j.dir + "/pid")
			zktest.Eventually(t, "the reader stops", func() bool { return processState(pid) == "T" })
			if strings.HasPrefix(j.prefix, "flock") { // bash waits for flock, not for the reader
				zktest.Eventually(t, "flock stops", func() bool { return processState(parentOf(t, pid)) == "T" })
			}
			j.run("fg", "read x")
			j.typeIn("abc\n")
			j.expect("got:abc\r\n")
			j.wantStatus(4)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothWays(t, test)
		})
	}
}

// loopEnds returns a test in which Ctrl-C ends a script with a loop.
func loopEnds(shell, redirection string) func(t *testing.T, j *job) {
	return func(t *testing.T, j *job) {
		command := `P sh -c "echo begun$i >/dev/tty; exec sleep 30" ` + redirection
		if redirection == "captured" {
			command = `x=$(P sh -c "echo begun$i >/dev/tty; exec sleep 30")`
		}
		j.run(shell+" "+j.script("for i in 1 2 3; do "+command+"; done; echo after\n"), "begun1\r\n")
		j.typeIn("\x03")
		j.expect(`\$ $`)
		j.run("echo status $?.", `status \d+\.\r\n`)
		if shown := j.shown(); strings.Contains(shown, "begun2") || strings.Contains(shown, "after\r\n") {
			t.Error("the script goes on")
		}
		if !strings.Contains(j.shown(), "status 130.\r\n") {
			t.Error("the status is not 130")
		}
	}
}

// processState returns the letter of a process's state in /proc, such as T for stopped, or an empty
// string if the process has ended.
func processState(pid int) string {
	fields, err := statFields(pid)
	if err != nil {
		return ""
	}
	return fields[0]
}

// parentOf returns the process id of a process's parent.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	fields, err := statFields(pid)
	zktest.Must(t, err)
	parent, err := strconv.Atoi(fields[1])
	zktest.Must(t, err)
	return parent
}

// zksh is never stopped while it holds a lock, terminates what the command leaves, and restores the
// terminal. Under flock, some of this differs.
func TestJobUnderALock(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(t *testing.T, j *job){
		"Ctrl-C that the command handles": func(t *testing.T, j *job) {
			j.run(`P bash -c 'trap "echo caught; exit 7" INT; echo be""gun; sleep 30 & wait'; echo status $?.`, "begun\r\n")
			j.typeIn("\x03")
			j.expect("caught\r\n")
			j.expect(`status 7\.\r\n`)
			if n := strings.Count(j.shown(), "caught\r\n"); n != 1 {
				t.Errorf("the command got %d signals", n)
			}
		},
		"Ctrl-Z": func(t *testing.T, j *job) {
			j.run(`P sh -c 'echo be""gun; read x; echo got:$x; exit 5'; echo status $?.`, "begun\r\n")
			j.typeIn("\x1a")
			j.expect("zksh continues it")
			j.typeIn("abc\n")
			j.expect(`got:abc\r\n`)
			j.expect(`status 5\.\r\n`)
		},
		"the command stops itself": func(t *testing.T, j *job) {
			j.run(`P sh -c 'kill -STOP $$; exit 6'; echo status $?.`, `status 6\.\r\n`)
			j.run(`P sh -c 'kill -STOP 0; exit 6'; echo status $?.`, `status 6\.\r\n`)
		},
		"a stopped command in the background holds the lock": func(t *testing.T, j *job) {
			file := filepath.Join(j.dir, "pid")
			j.run(`P sh -c 'echo $$ > `+file+`; kill -STOP $$; exit 6' &`, "still holds the lock")
			pid := j.pid(file)
			if processState(pid) != "T" {
				t.Error("it is not stopped")
			}
			zktest.Must(t, syscall.Kill(pid, syscall.SIGCONT))
			j.run("wait %1; echo status $?.", `status 6\.\r\n`)
		},
		"a killed command left raw mode": func(t *testing.T, j *job) {
			file := j.script("stty raw -echo; kill -9 $$\n")
			j.run("P sh "+file+`; echo status $?.; stty -a | tr ' ;' '\n\n' | grep -x -e icanon -e echo -e opost`,
				`status 137\.\r\n(icanon\r\n|echo\r\n|opost\r\n){3}`)
		},
		"Ctrl-C does not reach what left raw mode": func(t *testing.T, j *job) {
			file := j.script("stty raw -echo; echo begun; dd bs=1 count=1 2>/dev/null | od -An -tx1; stty sane; exit 3\n")
			j.run("P sh "+file+"; echo status $?.", "begun")
			j.typeIn("\x03")
			j.expect("03")
			j.expect(`status 3\.\r\n`)
		},
		"kill -TERM": func(t *testing.T, j *job) {
			j.run(`P sh -c 'trap "echo term; exit 9" TERM; echo be""gun; while :; do sleep 0.05; done' &`, "begun\r\n")
			j.run("kill -TERM %1; wait %1; echo status $?.", `status 9\.\r\n`)
		},
		"kill -TERM without a handler": func(t *testing.T, j *job) {
			j.run(`P sh -c 'echo be""gun; exec sleep 30' &`, "begun\r\n")
			j.run("kill -TERM %1; wait %1; echo status $?.", `status 143\.\r\n`)
		},
		"kill -9 of zksh in the foreground": func(t *testing.T, j *job) {
			file := filepath.Join(j.dir, "pid")
			j.run(`P sh -c 'ps -o ppid= $PPID > `+file+`; echo be""gun; exec sleep 30'`, "begun\r\n")
			zktest.Must(t, syscall.Kill(j.pid(file), syscall.SIGKILL))
			j.expect(`Killed`)
			j.run(`echo al""ive`, `alive\r\n`)
		},
		"daemons": func(t *testing.T, j *job) {
			j.run(`P sh -c 'setsid sleep 30 & exit 3'; echo status $?.`, `holds the lock until these processes`)
			j.expect(`\d+ \(sleep\)`)
			j.typeIn("\x03")
			j.expect(`status 3\.\r\n`)
		},
		"hang-up": func(t *testing.T, j *job) {
			file := filepath.Join(j.dir, "pid")
			j.run(`P sh -c 'echo $$ > `+file+`; echo be""gun; exec sleep 30'`, "begun\r\n")
			pid := j.pid(file)
			j.hangUp()
			zktest.Eventually(t, "the command has ended", func() bool { return !zktest.Runs(pid) })
			zktest.Eventually(t, "the lock is free", func() bool { return runAt(t, j.server, "ls", "/l") == "[]\n" })
		},
		"hang-up that the command ignores": func(t *testing.T, j *job) {
			file := filepath.Join(j.dir, "pid")
			script := j.script(`trap "" HUP; echo $$ > ` + file + "; echo begun\n" +
				"until [ -e " + j.dir + "/go ]; do sleep 0.05; done\n")
			j.run("P sh "+script, "begun\r\n")
			pid := j.pid(file)
			j.hangUp()
			zktest.Eventually(t, "bash has ended", func() bool { return !zktest.Runs(j.cmd.Process.Pid) })
			if n := strings.Count(runAt(t, j.server, "ls", "/l"), "lock-"); n != 1 || !zktest.Runs(pid) {
				t.Errorf("%d hold the lock; the command runs: %t", n, zktest.Runs(pid))
			}
			zktest.Must(t, os.WriteFile(filepath.Join(j.dir, "go"), nil, 0o600))
			zktest.Eventually(t, "the lock is free", func() bool { return runAt(t, j.server, "ls", "/l") == "[]\n" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, openJob(t, false))
		})
	}
}
