// Package zktest has what tests need around ZooKeeper: real servers started
// from Debian's package, a TCP proxy that makes faults to order, and peers that
// are not ZooKeeper at all. Everything listens on loopback only and ends with
// the test that asked for it.
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

// Server is a real ZooKeeper server under one test's control. Its methods end
// the test when they fail, so call them from the test's own goroutine.
type Server struct {
	tb   testing.TB
	inst *instance
	peer *instance
}

// Start starts a server of its own for tb and returns once it serves clients.
// It is killed and its data removed when tb ends. With -short the test is skipped. Without
// an installed ZooKeeper it is skipped, too, or fails if the environment variable CI is set.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	// TempDir comes first: clean-ups run last to first, and the directory must
	// outlive the server.
	inst, peer, err := launch(tb.TempDir(), opts)
	if err != nil {
		giveUp(tb, err)
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

// Addr returns the server's client address as "127.0.0.1:port". It stays the
// same over Stop and Restart.
func (s *Server) Addr() string { return s.inst.addr }

// Secure returns the address with TLS, which Secure has asked for.
func (s *Server) Secure() string { return s.inst.secure }

// Snapshots is the directory of the server's snapshots.
func (s *Server) Snapshots() string { return filepath.Join(s.inst.dir, "data", "version-2") }

// Logs is the directory of the server's transaction logs.
func (s *Server) Logs() string { return filepath.Join(s.inst.dir, "log", "version-2") }

// Stop kills the server as a crash would. Its data stay for Restart.
func (s *Server) Stop() { s.inst.stop() }

// Restart kills the server if it runs, starts it again with the same data and
// port, and returns once it serves clients.
func (s *Server) Restart() {
	s.tb.Helper()
	s.inst.stop()
	if err := s.inst.start(); err != nil {
		s.tb.Fatalf("zktest: restart: %v\n%s", err, s.inst.logTail())
	}
}

// Pause freezes the server's process: connections stay open and unanswered.
func (s *Server) Pause() {
	s.tb.Helper()
	if err := s.inst.signal(pauseProcess); err != nil {
		s.tb.Fatalf("zktest: pause: %v", err)
	}
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.tb.Helper()
	if err := s.inst.signal(resumeProcess); err != nil {
		s.tb.Fatalf("zktest: resume: %v", err)
	}
}

// Peer returns the second member of a ReadOnlyEnsemble, which is not running
// until its Restart is called; with any other server it ends the test.
func (s *Server) Peer() *Server {
	s.tb.Helper()
	if s.peer == nil {
		s.tb.Fatal("zktest: Peer requires a server of a ReadOnlyEnsemble")
	}
	return &Server{tb: s.tb, inst: s.peer}
}

// Log returns all the server has logged so far, over all its restarts.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.inst.logPath())
	if err != nil {
		return "zktest: no server log: " + err.Error()
	}
	return string(text)
}

// shared is the server behind Shared, one for each test binary.
var shared struct {
	dir  string // made by M.Run before any test; empty: nobody would clean up
	once sync.Once
	inst *instance
	err  error
}

// Shared returns a server that all tests of a package use together, started by
// the first that asks, with default options. Keep each test below a root znode
// of its own, and leave the server running. The package must have
//
//	func TestMain(m *testing.M) { zktest.Main(m) }
func Shared(tb testing.TB) *Server {
	tb.Helper()
	if shared.dir == "" {
		tb.Fatal("zktest: to use Shared, add to the test package: func TestMain(m *testing.M) { zktest.Main(m) }")
	}
	shared.once.Do(func() { shared.inst, _, shared.err = launch(shared.dir, nil) })
	if shared.err != nil {
		giveUp(tb, shared.err)
	}
	logIfFailed(tb, shared.inst)
	return &Server{tb: tb, inst: shared.inst}
}

// M is a testing.M whose Run also cleans up the Shared server. It fits wherever
// a Run() int is wanted, such as testscript.Main and goleak.VerifyTestMain.
type M struct{ *testing.M }

// atOnce is how many parallel tests of a package run together unless -parallel
// says otherwise: they wait for servers and programs most of the time.
const atOnce = 8

// Run runs the tests, stops the Shared server, and returns the exit status.
func (m M) Run() int {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
			panic(err) // a number always fits
		}
	}
	dir, err := os.MkdirTemp("", "zktest-")
	if err != nil {
		panic(err) // no temporary directory: no test could run
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

// Main is the body of a TestMain in a package that uses Shared. The testing
// package takes the exit status from m, so nothing else is needed.
func Main(m *testing.M) { M{m}.Run() }

// giveUp ends a test that cannot have its server.
func giveUp(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, errShort) {
		tb.Skip("NOT TESTED: ", err)
	}
	Need(tb, !errors.Is(err, errNotInstalled), "zookeeper libnetty-java")
	tb.Fatalf("zktest: %v", err)
}

// Need ends a test that needs what is not installed: in CI, which has the
// environment variable CI, it fails, elsewhere it is skipped. The packages are
// Debian's.
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

// logIfFailed shows the end of the server's log below a failed test.
func logIfFailed(tb testing.TB, inst *instance) {
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("end of the server's log:\n%s", inst.logTail())
		}
	})
}

// Private reports whether a file, or a folder, is its user's to read and to write, and nobody
// else's, as far as a mode can tell: on Windows the folder says who may read.
func Private(info fs.FileInfo) bool {
	want := fs.FileMode(0o600)
	if info.IsDir() {
		want = 0o700
	}
	return runtime.GOOS == "windows" || info.Mode().Perm() == want
}
