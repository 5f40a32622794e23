package underlock

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/zktest"
)

// A container is a world in which zksh sees other processes, or none, in /proc.
type container struct {
	name  string
	start string // shell command that replaces itself with "$@"
	first bool   // whether zksh is process 1 of the container
	named string // pattern of the list of the processes that a command has left
}

const (
	asNobody = `exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`
	noProc   = `exec unshare --mount sh -c 'umount -l /proc; test ! -e /proc/self && `
	hidden   = `exec unshare --mount sh -c 'mount -t proc -o hidepid=2 proc /proc && `
	anyName  = `\d+ \(sh\), \d+ \(sleep\)`
	noName   = `\(zksh cannot name them\)`
)

var containers = []container{
	{name: "no proc", start: noProc + `exec "$@"' sh "$@"`, named: noName},
	{name: "no proc, not root", start: noProc + asNobody + `' sh "$@"`, named: noName},
	{name: "hidden processes, not root", start: hidden + asNobody + `' sh "$@"`, named: anyName},
	{name: "process 1", start: `exec unshare --pid --fork --mount-proc "$@"`, first: true, named: anyName},
	{name: "process 1, proc of all processes", start: `exec unshare --pid --fork "$@"`, first: true, named: noName},
	{
		name: "process 1, not root", first: true, named: anyName,
		start: `exec unshare --pid --fork --mount-proc sh -c '` + asNobody + `' sh "$@"`,
	},
}

// In a container, too, zksh waits for the daemons of a command, names them if it can, and terminates them.
func TestContainers(t *testing.T) {
	t.Parallel()
	zksh, _ := needPrograms(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can make containers")
	}
	zktest.NeedProgram(t, "unshare", "util-linux")
	zktest.NeedProgram(t, "setpriv", "util-linux")
	try := zktest.Command(zktest.Within(t), t, "unshare", "--mount", "--pid", "--fork", "true")
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: the system forbids containers: %s", out)
	}
	server := newServer(t)
	for i, c := range containers {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := &contained{t: t, container: c, path: fmt.Sprint("/container-", i)}
			p.seconds = fmt.Sprintf("1000.%d%03d", os.Getpid(), i)
			p.args = []string{"sh", "-c", c.start, "sh", zksh, "-q", "-server", server, "lock", "-t", "300ms", p.path, "--"}
			t.Cleanup(func() { killAll(p.left()) }) // only if the test has failed

			p.run(`exit 7`)
			if err := p.cmd.Wait(); status(p.cmd.ProcessState) != 7 {
				t.Errorf("a command that ends: %v; it printed %s", err, p.errors())
			}

			daemon := `trap "" TERM INT; echo begun; sleep ` + p.seconds + `; :`
			announced := regexp.MustCompile(`holds the lock until these processes of it have ended, too: ` + c.named + `;`)
			for _, late := range []bool{false, true} { // whether the keeper kills too late
				p.run(`setsid sh -c '` + daemon + `' & exit 3`)
				zktest.Eventually(t, "zksh waits for the daemon", func() bool { return announced.MatchString(p.errors()) })
				if late {
					p.holdUp(children(p.pid())[0])
				} else {
					p.signal(syscall.SIGTERM)
				}
				if err := p.cmd.Wait(); status(p.cmd.ProcessState) != 3 || len(p.left()) > 0 {
					t.Errorf("a daemon, late: %t: %v; it printed %s; left: %s", late, err, p.errors(), describe(p.left()))
				}
			}

			p.run(`setsid sh -c '` + daemon + `' & ` + daemon)
			p.signal(syscall.SIGKILL)
			_ = p.cmd.Wait() // was killed
			zktest.Eventually(t, "nothing is left", func() bool { return len(p.left()) == 0 })
		})
	}
}

// contained is zksh in a container. It runs commands one after another.
type contained struct {
	container
	t       *testing.T
	path    string   // path of the lock
	seconds string   // an argument of the sleep of this container of this run alone
	args    []string // what runs zksh, and zksh's arguments up to the command

	cmd  *exec.Cmd
	errs string // name of the file with standard error
}

// run starts zksh with a shell script. If the script prints "begun", it waits for all that the script starts.
func (p *contained) run(script string) {
	p.t.Helper()
	dir := openDir(p.t, nobody)
	p.errs = filepath.Join(dir, "errors")
	errs, err := os.Create(p.errs)
	zktest.Must(p.t, err)
	defer errs.Close()
	args := append(p.args, "sh", "-c", script)
	p.cmd = zktest.Command(zktest.Within(p.t), p.t, args[0], args[1:]...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = dir, environment(dir), errs
	r, w, err := os.Pipe()
	zktest.Must(p.t, err)
	defer r.Close()
	p.cmd.Stdout = w
	zktest.Must(p.t, p.cmd.Start())
	zktest.Must(p.t, w.Close())
	begun := bytes.Repeat([]byte("begun\n"), strings.Count(script, "begun"))
	_, err = io.ReadFull(r, begun)
	zktest.Must(p.t, err)
}

// pid returns the process id of zksh.
func (p *contained) pid() int {
	if p.first {
		return children(p.cmd.Process.Pid)[0] // the process itself is unshare
	}
	return p.cmd.Process.Pid
}

// signal sends a signal to zksh.
func (p *contained) signal(sig syscall.Signal) {
	p.t.Helper()
	zktest.Must(p.t, syscall.Kill(p.pid(), sig))
}

// holdUp stops a keeper in such a way that zksh cannot resume it, for longer than zksh waits before it kills
// everything itself.
func (p *contained) holdUp(keeper int) {
	p.t.Helper()
	runtime.LockOSThread() // only this thread is the tracer
	defer runtime.UnlockOSThread()
	zktest.Must(p.t, syscall.PtraceAttach(keeper))
	_, err := syscall.Wait4(keeper, nil, syscall.WALL, nil)
	zktest.Must(p.t, err)
	p.signal(syscall.SIGTERM)
	time.Sleep(time.Second)
	if syscall.PtraceDetach(keeper) != nil { // zksh has killed it
		_, err = syscall.Wait4(keeper, nil, syscall.WALL, nil)
		zktest.Check(p.t, err)
	}
}

// errors returns what zksh has printed on standard error.
func (p *contained) errors() string {
	p.t.Helper()
	text, err := os.ReadFile(p.errs)
	zktest.Must(p.t, err)
	return string(text)
}

// left returns the processes that the commands have left. The test itself is in no container.
func (p *contained) left() []int { return processes(p.t, "sleep\x00"+p.seconds) }
