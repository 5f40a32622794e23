// Package zktest provides ZooKeeper servers and network faults to tests:
//
//   - Start, Shared, Ensemble and StartSplit run real ZooKeeper servers from Debian's package;
//   - Sandbox, Faulty and Endless run imitations of ZooKeeper, some of them faulty or hostile;
//   - NewProxy runs a TCP proxy that injects network faults;
//   - Silent, SSHBanner, HTTP and Refused return addresses where no ZooKeeper server listens;
//   - Eventually and Within limit the time that a test waits for expected events.
//
// All servers listen on loopback addresses only and end with the test that started them.
package zktest

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// A Server is a real ZooKeeper server that a test controls. Its methods end the test with Fatal
// if they fail. Call them only from the test's own goroutine.
type Server struct {
	tb   testing.TB
	inst *instance
	peer *Server // second member of a ReadOnlyEnsemble, or nil
}

// Start starts a ZooKeeper server for the test tb, and returns once the server accepts requests.
// When the test ends, Start kills the server and removes its data.
//
// With the flag -short, Start skips the test. If ZooKeeper is not installed, it also skips the
// test, or fails it if the environment variable CI is set.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	servers := startMembers(tb, newConfig(opts))
	if len(servers) > 1 {
		servers[0].peer = servers[1]
	}
	return servers[0]
}

// Addr returns the address at which clients reach the server, in the form "127.0.0.1:port". It
// remains the same after Stop and Restart.
func (s *Server) Addr() string { return s.inst.addr }

// Secure returns the address for clients with TLS. It is empty if the server was started without
// the option Secure.
func (s *Server) Secure() string { return s.inst.secure }

// Snapshots returns the directory in which the server stores its snapshots.
func (s *Server) Snapshots() string { return filepath.Join(s.inst.dir, "data", "version-2") }

// Logs returns the directory in which the server stores its transaction logs.
func (s *Server) Logs() string { return filepath.Join(s.inst.dir, "log", "version-2") }

// Stop kills the server, as if it had crashed. Its data remains on disk for Restart.
func (s *Server) Stop() { s.inst.stop() }

// Restart starts the server again with the same data and port, and returns once the server
// accepts requests. If the server is still running, Restart kills it first.
func (s *Server) Restart() {
	s.tb.Helper()
	s.inst.stop()
	if err := s.inst.start(); err != nil {
		s.tb.Fatalf("zktest: restart: %v\n%s", err, s.inst.logTail())
	}
}

// Pause stops the server's process with SIGSTOP. Connections stay open, but the server does not
// reply until Resume is called.
func (s *Server) Pause() {
	s.tb.Helper()
	if err := s.inst.signal(pauseProcess); err != nil {
		s.tb.Fatalf("zktest: pause: %v", err)
	}
}

// Resume continues a server that Pause has stopped.
func (s *Server) Resume() {
	s.tb.Helper()
	if err := s.inst.signal(resumeProcess); err != nil {
		s.tb.Fatalf("zktest: resume: %v", err)
	}
}

// Peer returns the second member of a ReadOnlyEnsemble, which is not running until its method
// Restart is called. For any other server, Peer ends the test with Fatal.
func (s *Server) Peer() *Server {
	s.tb.Helper()
	if s.peer == nil {
		s.tb.Fatal("zktest: Peer requires a server of a ReadOnlyEnsemble")
	}
	return s.peer
}

// Log returns the contents of the server's log file, including those from before a restart.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.inst.logPath())
	if err != nil {
		return "zktest: no server log: " + err.Error()
	}
	return string(text)
}

// shared contains the server that Shared returns. Each test binary has its own.
var shared struct {
	dir  string // directory of the server, or empty if M.Run was not called
	once sync.Once
	inst *instance
	err  error
}

// Shared returns a server that all tests of a package share. The first call starts it with the
// default options. Each test must work below a root znode of its own, and must not stop the
// server. The test package must contain
//
//	func TestMain(m *testing.M) { zktest.Main(m) }
func Shared(tb testing.TB) *Server {
	tb.Helper()
	if shared.dir == "" {
		tb.Fatal("zktest: to use Shared, add to the test package: func TestMain(m *testing.M) { zktest.Main(m) }")
	}
	shared.once.Do(func() {
		made, err := launch(shared.dir, newConfig(nil))
		if shared.err = err; err == nil {
			shared.inst = made[0]
		}
	})
	if shared.err != nil {
		skipOrFail(tb, shared.err)
	}
	logIfFailed(tb, shared.inst)
	return &Server{tb: tb, inst: shared.inst}
}

// An M is a testing.M whose Run method also stops the server that Shared has started. It can be
// passed to functions that need a value with a method Run() int, such as goleak.VerifyTestMain.
type M struct{ *testing.M }

// defaultParallel is the default of go test's flag -parallel. On small machines it is higher than
// Go's own default, because these tests spend most of their time waiting for servers and
// programs.
const defaultParallel = 8

// Run runs the tests, stops the server that Shared has started, and returns the exit status.
func (m M) Run() int {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", strconv.Itoa(defaultParallel)); err != nil {
			panic(err) // cannot happen, because the value is a number
		}
	}
	dir, err := os.MkdirTemp("", "zktest-")
	if err != nil {
		panic(err) // without a temporary directory, no test can run
	}
	shared.dir = dir
	defer os.RemoveAll(dir)
	defer func() {
		if shared.inst != nil {
			shared.inst.stop()
		}
	}()
	return m.M.Run()
}

// Main runs the tests of a package that uses Shared. Call it from TestMain. It need not call
// os.Exit, because package testing gets the exit status from m.
func Main(m *testing.M) { M{m}.Run() }

// skipOrFail ends a test whose server could not be started because of err. It either skips the
// test or fails it with Fatal.
func skipOrFail(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errShort) {
		tb.Skip("NOT TESTED: ", err)
	}
	Need(tb, !errors.Is(err, errNotInstalled), "zookeeper libnetty-java")
	tb.Fatalf("zktest: %v", err)
}

// Need ends a test if Debian packages that it needs are not installed. It fails the test if the
// environment variable CI is set, and skips it otherwise. packages contains their names,
// separated by spaces.
func Need(tb testing.TB, installed bool, packages string) {
	tb.Helper()
	switch {
	case installed:
	case os.Getenv("CI") != "":
		tb.Fatalf("required packages are not installed; install them with: apt-get install %s", packages)
	default:
		tb.Skipf("NOT TESTED, because required packages are missing; install them with: apt-get install %s", packages)
	}
}

// NeedProgram ends a test as Need does if a program is not in PATH.
func NeedProgram(tb testing.TB, name, packages string) {
	tb.Helper()
	_, err := exec.LookPath(name)
	Need(tb, err == nil, packages)
}

// logIfFailed prints the end of the server's log if the test has failed.
func logIfFailed(tb testing.TB, inst *instance) {
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of the server's log:\n%s", inst.logTail())
		}
	})
}

// Private reports whether only the owner can access a file (mode 0600) or directory (mode 0700).
// On Windows, where the mode does not contain access rights, it always returns true.
func Private(info fs.FileInfo) bool {
	want := fs.FileMode(0o600)
	if info.IsDir() {
		want = 0o700
	}
	return runtime.GOOS == "windows" || info.Mode().Perm() == want
}
