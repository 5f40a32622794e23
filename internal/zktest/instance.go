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
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	serverJar = "/usr/share/java/zookeeper.jar"
	// The manifest of zookeeper.jar lists all jars that it needs, except the one for logging.
	classPath = serverJar + ":/usr/share/java/slf4j-simple.jar"

	// startLimit is the time within which a server must start. Servers start in much less time,
	// even on a busy machine.
	startLimit = 60 * time.Second
)

var errNotInstalled = errors.New("the ZooKeeper server or java was not found; install them with: " +
	"apt-get install zookeeper libnetty-java")

// errShort is the reason why no server is started if the tests run with -short.
var errShort = errors.New("go test -short starts no ZooKeeper server")

// An instance is one ZooKeeper server with its directory and addresses. Its process may be
// running or stopped.
type instance struct {
	dir  string
	addr string   // address for clients without TLS
	args []string // command-line arguments for java
	env  []string // variables that are added to its environment

	secure string // address for clients with TLS, or empty if there is none

	mu   sync.Mutex
	proc *process // running process, or nil if the server is stopped
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

// launch starts all servers with the configuration c, with their files below dir. Of a
// ReadOnlyEnsemble, it starts only the first member. If another program uses one of their ports, it
// tries again with other ports. It makes at most three attempts.
func launch(dir string, c config) ([]*instance, error) {
	if err := installed(c); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		made, err := prepare(filepath.Join(dir, strconv.Itoa(try)), c)
		if err != nil {
			return nil, err
		}
		starts := made
		if c.readOnly {
			starts = made[:1]
		}
		errs := make([]error, len(starts))
		var starting sync.WaitGroup
		for i, inst := range starts {
			starting.Go(func() { errs[i] = inst.start() })
		}
		starting.Wait()
		if err = errors.Join(errs...); err == nil {
			return made, nil
		}
		for _, inst := range starts {
			inst.stop()
		}
		if try == 3 || !slices.ContainsFunc(starts, (*instance).portTaken) {
			return nil, fmt.Errorf("%w\n%s", err, starts[0].logTail())
		}
	}
}

// prepare writes the files of a server, or of all members of an ensemble, to directories below
// dir. It does not start any server.
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
		in := &instance{dir: home, addr: loopback(m.client), args: c.javaArgs(cfg), env: c.env}
		if c.secure {
			in.secure = loopback(m.secure)
		}
		made = append(made, in)
	}
	return made, nil
}

// start starts the server's process, and returns once the server accepts requests from clients.
func (in *instance) start() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	log, err := os.OpenFile(in.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child process has its own copy of the file
	cmd := exec.Command("java", in.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = in.dir, log, log
	cmd.Env = append(os.Environ(), in.env...)
	cmd.SysProcAttr = dieWithParent()
	if in.proc, err = startProcess(cmd); err != nil {
		in.proc = nil
		return err
	}
	deadline := time.Now().Add(startLimit)
	// The server opens its TLS port a little later than its port without TLS.
	for !serves(in.addr) || in.secure != "" && !listens(in.secure) {
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

// stop kills the server's process, if it is running, and waits until the process has ended.
func (in *instance) stop() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc != nil {
		in.proc.kill()
		in.proc = nil
	}
}

// signal calls send with the server's process, or returns an error if the server is not running.
func (in *instance) signal(send func(*os.Process) error) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc == nil {
		return errors.New("the server is not running")
	}
	return send(in.proc.cmd.Process)
}

func (in *instance) logPath() string { return filepath.Join(in.dir, "server.log") }

// portTaken reports whether the server could not start because another program uses one of its
// ports.
func (in *instance) portTaken() bool { return bytes.Contains(in.logTail(), []byte("BindException")) }

// logTail returns the last 4 KiB of the server's log.
func (in *instance) logTail() []byte {
	text, _ := os.ReadFile(in.logPath()) // fails only if there is no log yet
	return text[max(0, len(text)-4096):]
}

// serves reports whether the server at addr accepts requests from clients. Only then does its
// output for the four-letter command srvr contain a line "Mode: …".
func serves(addr string) bool { return srvrContains(addr, "\nMode: ") }

// listens reports whether any server accepts connections at addr.
func listens(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, 300*time.Millisecond)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// srvrContains reports whether a server's output for the four-letter command srvr contains text.
// It waits only 300 ms, because srvr can fail inside a server that is starting. Such a server
// neither replies nor closes the connection.
func srvrContains(addr, text string) bool {
	output, _ := fourLetter(addr, "srvr", 300*time.Millisecond)
	return strings.Contains(output, text)
}

// A process is a child process that has been started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once the process has ended and cmd.Wait has returned
}

// startProcess starts the command cmd, and a goroutine that runs until the process has ended.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.done)
		// Linux kills the child when the thread that started it ends. Lock this goroutine to its
		// thread, so that the thread does not end before the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit status does not matter, because the process is always killed
		}
	}()
	return p, <-started
}

// kill kills the process, and waits until it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if the process has already ended
	<-p.done
}
