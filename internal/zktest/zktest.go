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
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
)

// A Server is a real ZooKeeper server that a test controls. A method that fails ends the test
// with Fatal, so call the methods only from the goroutine of the test.
type Server struct {
	tb   testing.TB
	inst *instance
	peer *instance // second member of a ReadOnlyEnsemble, or nil
}

// Start starts a server for the test tb and returns once it serves clients. When the test ends,
// the server is killed and its data are removed. With -short, Start skips the test. If
// ZooKeeper is not installed, the test fails if the environment variable CI is set, and is
// skipped otherwise.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	// Call TempDir before Cleanup: cleanups run in reverse order, and the directory must be
	// removed after the server has stopped.
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

// Addr returns the address for clients in the form "127.0.0.1:port". It remains the same after
// Stop and Restart.
func (s *Server) Addr() string { return s.inst.addr }

// Secure returns the address for clients that use TLS, or an empty string if the server was
// started without the option Secure.
func (s *Server) Secure() string { return s.inst.secure }

// Snapshots returns the directory in which the server stores its snapshots.
func (s *Server) Snapshots() string { return filepath.Join(s.inst.dir, "data", "version-2") }

// Logs returns the directory in which the server stores its transaction logs.
func (s *Server) Logs() string { return filepath.Join(s.inst.dir, "log", "version-2") }

// Stop kills the server, as in a crash. Its data remain on disk for Restart.
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

// Pause stops the server's process with SIGSTOP. Its connections stay open, but it does not
// reply until Resume is called.
func (s *Server) Pause() {
	s.tb.Helper()
	if err := s.inst.signal(pauseProcess); err != nil {
		s.tb.Fatalf("zktest: pause: %v", err)
	}
}

// Resume makes a paused server run again.
func (s *Server) Resume() {
	s.tb.Helper()
	if err := s.inst.signal(resumeProcess); err != nil {
		s.tb.Fatalf("zktest: resume: %v", err)
	}
}

// Peer returns the second member of a ReadOnlyEnsemble. It does not run until its method Restart
// is called. If the server is not part of a ReadOnlyEnsemble, Peer ends the test with Fatal.
func (s *Server) Peer() *Server {
	s.tb.Helper()
	if s.peer == nil {
		s.tb.Fatal("zktest: Peer requires a server of a ReadOnlyEnsemble")
	}
	return &Server{tb: s.tb, inst: s.peer}
}

// Log returns the complete text of the server's log file, including the part before restarts.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.inst.logPath())
	if err != nil {
		return "zktest: no server log: " + err.Error()
	}
	return string(text)
}

// shared holds the server that Shared returns. Each test binary has its own.
var shared struct {
	dir  string // directory of the server, created by M.Run; empty if M.Run was not called
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
	shared.once.Do(func() { shared.inst, _, shared.err = launch(shared.dir, nil) })
	if shared.err != nil {
		skipOrFail(tb, shared.err)
	}
	logIfFailed(tb, shared.inst)
	return &Server{tb: tb, inst: shared.inst}
}

// M is a testing.M whose method Run also stops the server that Shared started. Pass it to
// functions that need a method Run() int, such as testscript.Main and goleak.VerifyTestMain.
type M struct{ *testing.M }

// defaultParallel is the default of the flag -parallel of go test. On small machines, it is
// higher than Go's default, because these tests spend most of their time waiting for servers
// and programs.
const defaultParallel = 8

// Run runs the tests, stops the server that Shared started, and returns the exit status.
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

// Main is the body of TestMain in a package that uses Shared. It does not have to call os.Exit,
// because the testing package takes the exit status from m.
func Main(m *testing.M) { M{m}.Run() }

// skipOrFail skips a test or ends it with Fatal, because its server could not be started. err is
// the reason.
func skipOrFail(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errShort) {
		tb.Skip("NOT TESTED: ", err)
	}
	Need(tb, !errors.Is(err, errNotInstalled), "zookeeper libnetty-java")
	tb.Fatalf("zktest: %v", err)
}

// Need ends a test if the Debian packages that it needs are not installed. The test fails if the
// environment variable CI is set, and is skipped otherwise. The message contains the names of
// the packages, which are separated by spaces.
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

// logIfFailed makes a test that fails print the end of the server's log.
func logIfFailed(tb testing.TB, inst *instance) {
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of the server's log:\n%s", inst.logTail())
		}
	})
}

// Private reports whether only the owner has access to a file (mode 0600) or directory (mode
// 0700). On Windows it always returns true, because the mode does not show access rights there.
func Private(info fs.FileInfo) bool {
	want := fs.FileMode(0o600)
	if info.IsDir() {
		want = 0o700
	}
	return runtime.GOOS == "windows" || info.Mode().Perm() == want
}
