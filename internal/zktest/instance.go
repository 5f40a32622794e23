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
	// The manifest of zookeeper.jar names all jars that it needs, except one for logging.
	classPath = serverJar + ":/usr/share/java/slf4j-simple.jar"

	// startLimit is the longest wait for a server to start. Even on a busy machine, servers
	// start in much less time.
	startLimit = 60 * time.Second
)

var errNotInstalled = errors.New("the ZooKeeper server or java was not found; install them with: apt-get install zookeeper libnetty-java")

// errShort says that a server was not started because the tests run with -short.
var errShort = errors.New("go test -short starts no ZooKeeper server")

// An instance is one ZooKeeper server: its directory, its addresses, and its process if it is
// running.
type instance struct {
	dir  string
	addr string   // address for clients
	args []string // arguments of java

	secure string // address for clients that use TLS; empty if there is none

	mu   sync.Mutex
	proc *process // nil if the server is stopped
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

// launch starts a server with its files below dir. For a ReadOnlyEnsemble, it also returns the
// second member, which it has not started. Otherwise, the second result is nil.
func launch(dir string, opts []Option) (*instance, *instance, error) {
	c := newConfig(opts)
	if err := installed(c); err != nil {
		return nil, nil, err
	}
	// Try several times, because another program can take a port before the server listens on it.
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

// prepare writes the files of a server, or of all members of an ensemble, to directories below
// dir. It does not start the servers.
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

// start starts the server's process and returns once the server serves clients.
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
	for !serves(in.addr) || in.secure != "" && !listens(in.secure) { // the server opens its TLS port a little later
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

// stop kills the server's process if it is running, and waits until the process has ended.
func (in *instance) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc != nil {
		in.proc.kill()
		in.proc = nil
	}
}

// signal calls send with the server's process. It returns an error if the server is not running.
func (in *instance) signal(send func(*os.Process) error) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc == nil {
		return errors.New("the server is not running")
	}
	return send(in.proc.cmd.Process)
}

func (in *instance) logPath() string { return filepath.Join(in.dir, "server.log") }

// portTaken reports whether the server failed to start because another program was using one of
// its ports.
func (in *instance) portTaken() bool { return bytes.Contains(in.logTail(), []byte("BindException")) }

// logTail returns the last 4 KiB of the server's log.
func (in *instance) logTail() []byte {
	text, _ := os.ReadFile(in.logPath()) // an error means that there is no log yet
	return text[max(0, len(text)-4096):]
}

// serves reports whether the server at addr serves clients. Its output for the four-letter
// command srvr contains the line "Mode: …" only if it does.
func serves(addr string) bool { return srvrContains(addr, "\nMode: ") }

// listens reports whether a server accepts connections at addr.
func listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, 300*time.Millisecond)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// srvrContains reports whether a server's output for the four-letter command srvr contains a
// text. The output may be incomplete, because srvrContains waits only 300 ms: srvr may fail
// inside a server that is starting, which then neither replies nor closes the connection.
func srvrContains(addr, text string) bool {
	output, _ := FourLetter(addr, "srvr", 300*time.Millisecond)
	return strings.Contains(output, text)
}

// A process is a started child process.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed after the process has ended and Wait has returned
}

// startProcess starts the command cmd. It also starts a goroutine, which ends with the process.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// Linux sends the parent-death signal when the thread that started the child
		// ends. Lock this goroutine to its thread, so that the thread lives as long as
		// the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // ignore the status: the process is always killed
		}
	}()
	return p, <-started
}

// kill kills the process and waits until it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if the process has already ended
	<-p.done
}
