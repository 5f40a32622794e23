// Package zktest helps to test with ZooKeeper:
//
//   - Start, Shared, Ensemble and StartSplit run real servers from Debian's package;
//   - Sandbox, Faulty and Endless run imitations, including faulty and hostile ones;
//   - NewProxy runs a TCP proxy that injects network faults;
//   - Silent, SSHBanner, HTTP and Refused return addresses that are not ZooKeeper's;
//   - Eventually and Within wait for expected events.
//
// Everything listens on loopback only and ends with the test that started it.
package zktest

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// A Server is a real ZooKeeper server that a test controls. Its methods end the test if
// they fail, so call them from the goroutine of the test.
type Server struct {
	tb   testing.TB
	inst *instance
	peer *instance // second member of a ReadOnlyEnsemble, or nil
}

// Start starts a server for tb and returns once it serves clients. At the end of tb, the
// server is killed and its data are removed. With -short the test is skipped. If ZooKeeper
// is not installed, the test is skipped too, or fails if the environment variable CI is set.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	// TempDir is called before Cleanup, because cleanups run last to first, and the
	// directory must outlive the server.
	inst, peer, err := launch(tb.TempDir(), opts)
	if err != nil {
		skipOrFail(tb, err)
	}
	s := &Server{tb: tb, inst: inst, peer: peer}
	tb.Cleanup(func() {
		s.inst.stop()
		if s.peer != nil {
			s.peer.stop()
		}
	})
	logIfFailed(tb, inst)
	return s
}

// Addr returns the server's client address as "127.0.0.1:port". Stop and Restart do not
// change it.
func (s *Server) Addr() string { return s.inst.addr }

// Secure returns the address for TLS of a server with the option Secure.
func (s *Server) Secure() string { return s.inst.secure }

// Snapshots returns the directory of the server's snapshots.
func (s *Server) Snapshots() string { return filepath.Join(s.inst.dir, "data", "version-2") }

// Logs returns the directory of the server's transaction logs.
func (s *Server) Logs() string { return filepath.Join(s.inst.dir, "log", "version-2") }

// Stop kills the server, as in a crash. Its data stay for Restart.
func (s *Server) Stop() { s.inst.stop() }

// Restart kills the server if it is running, starts it again with the same data and port,
// and returns once it serves clients.
func (s *Server) Restart() {
	s.tb.Helper()
	s.inst.stop()
	if err := s.inst.start(); err != nil {
		s.tb.Fatalf("zktest: restart: %v\n%s", err, s.inst.logTail())
	}
}

// Pause stops the server's process. Its connections stay open, but it answers nothing.
func (s *Server) Pause() {
	s.tb.Helper()
	if err := s.inst.signal(pauseProcess); err != nil {
		s.tb.Fatalf("zktest: pause: %v", err)
	}
}

// Resume continues a paused server.
func (s *Server) Resume() {
	s.tb.Helper()
	if err := s.inst.signal(resumeProcess); err != nil {
		s.tb.Fatalf("zktest: resume: %v", err)
	}
}

// Peer returns the second member of a ReadOnlyEnsemble, which does not run until its
// Restart is called. For any other server, Peer ends the test.
func (s *Server) Peer() *Server {
	s.tb.Helper()
	if s.peer == nil {
		s.tb.Fatal("zktest: Peer requires a server of a ReadOnlyEnsemble")
	}
	return &Server{tb: s.tb, inst: s.peer}
}

// Log returns the server's whole log, including that from before restarts.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.inst.logPath())
	if err != nil {
		return "zktest: no server log: " + err.Error()
	}
	return string(text)
}

// shared is the server that Shared returns, one for each test binary.
var shared struct {
	dir  string // created by M.Run before any test; empty if M.Run was not used
	once sync.Once
	inst *instance
	err  error
}

// Shared returns a server that all tests of a package share. The first call starts it, with
// default options. Each test must use its own root znode, and must not stop the server. The
// package must contain
//
//	func TestMain(m *testing.M) { zktest.Main(m) }
func Shared(tb testing.TB) *Server {
	tb.Helper()
	if shared.dir == "" {
		tb.Fatal("zktest: to use Shared, add to the test package: func TestMain(m *testing.M) { zktest.Main(m) }")
	}
	shared.once.Do(func() { shared.inst, _, shared.err = launch(shared.dir, nil) })
	if shared.err != nil {
		skipOrFail(tb, shared.err)
	}
	logIfFailed(tb, shared.inst)
	return &Server{tb: tb, inst: shared.inst}
}

// M is a testing.M whose Run also cleans up the Shared server. Use it with functions that
// need a Run() int, such as testscript.Main and goleak.VerifyTestMain.
type M struct{ *testing.M }

// defaultParallel is the default of the flag -parallel. It is higher than Go's on small
// machines, because these tests mostly wait for servers and programs.
const defaultParallel = 8

// Run runs the tests, stops the Shared server, and returns the exit status.
func (m M) Run() int {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", strconv.Itoa(defaultParallel)); err != nil {
			panic(err) // a number is always valid
		}
	}
	dir, err := os.MkdirTemp("", "zktest-")
	if err != nil {
		panic(err) // without a temporary directory no test can run
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

// Main is the body of TestMain in a package that uses Shared. It need not call os.Exit,
// because the testing package takes the exit status from m.
func Main(m *testing.M) { M{m}.Run() }

// skipOrFail ends a test because its server could not be started.
func skipOrFail(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errShort) {
		tb.Skip("NOT TESTED: ", err)
	}
	Need(tb, !errors.Is(err, errNotInstalled), "zookeeper libnetty-java")
	tb.Fatalf("zktest: %v", err)
}

// Need ends a test if installed is false: the test fails if the environment variable CI is
// set, and is skipped otherwise. packages names the missing Debian packages.
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

// logIfFailed logs the end of the server's log if the test fails.
func logIfFailed(tb testing.TB, inst *instance) {
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of the server's log:\n%s", inst.logTail())
		}
	})
}

// Private reports whether only the owner has access to a file (mode 0600) or a directory
// (mode 0700). It returns true on Windows, where the mode does not show access rights.
func Private(info fs.FileInfo) bool {
	want := fs.FileMode(0o600)
	if info.IsDir() {
		want = 0o700
	}
	return runtime.GOOS == "windows" || info.Mode().Perm() == want
}
