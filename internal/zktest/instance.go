package zktest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	serverJar = "/usr/share/java/zookeeper.jar"
	// The jar's manifest names all other jars except one for logging.
	classPath = serverJar + ":/usr/share/java/slf4j-simple.jar"

	// startLimit is much longer than a start takes, even on a busy machine.
	startLimit = 60 * time.Second
)

var errNotInstalled = errors.New("the ZooKeeper server or java was not found; install them with: apt-get install zookeeper libnetty-java")

// errShort is returned if a server is not started because of go test -short.
var errShort = errors.New("go test -short starts no ZooKeeper server")

// An instance is a server: its directory, its address, and its process if it is running.
type instance struct {
	dir  string
	addr string
	args []string // arguments of java

	secure string // address for TLS, or ""

	mu   sync.Mutex
	proc *process // nil when stopped
}

func installed(c config) error {
	if testing.Testing() && testing.Short() {
		return errShort
	}
	if _, err := os.Stat(nettyJar("codec")); c.secure && err != nil {
		return errNotInstalled
	}
	if _, err := os.Stat(serverJar); err != nil {
		return errNotInstalled
	}
	if _, err := exec.LookPath("java"); err != nil {
		return errNotInstalled
	}
	return nil
}

// launch starts a server with its files below dir. For a read-only ensemble, the second
// result is the other member, not started; otherwise it is nil.
func launch(dir string, opts []Option) (*instance, *instance, error) {
	c := newConfig(opts)
	if err := installed(c); err != nil {
		return nil, nil, err
	}
	// Another program can take a port before the server binds it.
	for try := 1; ; try++ {
		made, err := prepare(filepath.Join(dir, strconv.Itoa(try)), c)
		if err != nil {
			return nil, nil, err
		}
		inst := made[0]
		err = inst.start()
		if err == nil {
			return inst, append(made, nil)[1], nil
		}
		inst.stop()
		if try == 3 || !inst.portTaken() {
			return nil, nil, fmt.Errorf("%w\n%s", err, inst.logTail())
		}
	}
}

// prepare writes the files of a server, or of all members of an ensemble.
func prepare(dir string, c config) ([]*instance, error) {
	var all []member
	for id := 1; id <= c.members; id++ {
		m := member{id: id}
		for _, port := range []*int{&m.client, &m.quorum, &m.election, &m.secure} {
			var err error
			if *port, err = freePort(); err != nil {
				return nil, err
			}
		}
		all = append(all, m)
	}
	var made []*instance
	for _, m := range all {
		home := filepath.Join(dir, strconv.Itoa(m.id))
		if err := os.MkdirAll(filepath.Join(home, "data"), 0o700); err != nil {
			return nil, err
		}
		id := []byte(strconv.Itoa(m.id))
		if err := os.WriteFile(filepath.Join(home, "data", "myid"), id, 0o600); err != nil {
			return nil, err
		}
		cfg := filepath.Join(home, "zoo.cfg")
		if err := os.WriteFile(cfg, []byte(c.zooCfg(home, m, all)), 0o600); err != nil {
			return nil, err
		}
		in := &instance{dir: home, addr: loopback(m.client), args: c.javaArgs(cfg)}
		if c.secure {
			in.secure = loopback(m.secure)
		}
		made = append(made, in)
	}
	return made, nil
}

// start starts the process and returns once the server serves clients.
func (in *instance) start() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	log, err := os.OpenFile(in.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child process has its own copy
	cmd := exec.Command("java", in.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = in.dir, log, log
	cmd.SysProcAttr = dieWithParent()
	if in.proc, err = startProcess(cmd); err != nil {
		in.proc = nil
		return err
	}
	deadline := time.Now().Add(startLimit)
	for !serves(in.addr) || in.secure != "" && !listens(in.secure) { // the port for TLS is opened a little later
		if time.Now().After(deadline) {
			return fmt.Errorf("the server did not start serving within %s", startLimit)
		}
		select {
		case <-in.proc.done:
			return errors.New("the server exited while it was starting")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// stop kills the process, if there is one, and waits until it has ended.
func (in *instance) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc != nil {
		in.proc.kill()
		in.proc = nil
	}
}

// signal calls do with the running process.
func (in *instance) signal(do func(*os.Process) error) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc == nil {
		return errors.New("the server is not running")
	}
	return do(in.proc.cmd.Process)
}

func (in *instance) logPath() string { return filepath.Join(in.dir, "server.log") }

// portTaken reports whether the server failed because another program had one of its ports.
func (in *instance) portTaken() bool { return bytes.Contains(in.logTail(), []byte("BindException")) }

// logTail returns the last 4 KiB of the log.
func (in *instance) logTail() []byte {
	text, _ := os.ReadFile(in.logPath()) // an error means that there is no log yet
	return text[max(0, len(text)-4096):]
}

// serves reports whether the server at addr serves clients: only then does its answer to
// srvr name a mode.
func serves(addr string) bool { return answersWith(addr, "\nMode: ") }

// listens reports whether a server accepts connections at addr.
func listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, 300*time.Millisecond)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// answersWith reports whether a server's answer to srvr contains what, even if the answer
// is incomplete. It does not wait long, because a server that is starting may fail on srvr
// internally, and then neither answers nor closes the connection.
func answersWith(addr, what string) bool {
	answer, _ := FourLetter(addr, "srvr", 300*time.Millisecond)
	return strings.Contains(answer, what)
}

// A process is a started child process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once the process has ended and been reaped
}

// startProcess starts cmd. It starts one goroutine, which ends with the process.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// Linux sends the parent-death signal when the thread that started the
		// child ends, so that thread must last as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the process is always killed; its log says more than its status
		}
	}()
	return p, <-started
}

// kill kills the process and waits until it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if the process has already ended
	<-p.done
}
