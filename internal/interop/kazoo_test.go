package interop

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

var wholeSuite = flag.Bool("kazoo", false, "run those of kazoo's tests too that take minutes")

// slowTests lists tests that do not work with a single server and take long: TestReconfig
// waits for the members of an ensemble until its timeout, and the tests of SASL send
// credentials until their session expires.
var slowTests = []string{"kazoo/tests/test_client.py::TestReconfig", "kazoo/tests/test_sasl.py"}

const (
	suiteLimit  = 15 * time.Minute                     // for all of TestKazooSuite, which is longer than it takes on a busy machine
	testLimit   = time.Minute                          // for each of kazoo's tests
	suiteTests  = 400                                  // minimum number of tests that pass with the real server
	superDigest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=" // digest of "super:test", which kazoo's tests use
)

// A suiteServer imitates the ensemble of three that kazoo's tests expect, and whose members
// they stop and start. Each member is a proxy to the same server, and a stopped member is a
// proxy that refuses connections.
type suiteServer struct {
	proxies []*zktest.Proxy
	control *httptest.Server // stops and starts members for testdata/kazoo_cluster.py
}

func newSuiteServer(t *testing.T, addr string) *suiteServer {
	b := &suiteServer{}
	mux := http.NewServeMux()
	for i := range 3 {
		door := zktest.NewProxy(t, addr)
		b.proxies = append(b.proxies, door)
		mux.HandleFunc(fmt.Sprintf("/%d/stop", i), func(http.ResponseWriter, *http.Request) {
			door.Refuse(true)
			door.Cut()
		})
		mux.HandleFunc(fmt.Sprintf("/%d/run", i), func(http.ResponseWriter, *http.Request) { door.Refuse(false) })
	}
	b.control = httptest.NewServer(mux)
	t.Cleanup(b.control.Close)
	return b
}

// A suite runs kazoo's tests on one server. Several processes share the tests, because these
// mostly wait. Each process has its own suiteServer.
type suite [6]*suiteServer

func newSuite(t *testing.T, addr string) (s suite) {
	for i := range s {
		s[i] = newSuiteServer(t, addr)
	}
	return s
}

// run runs tests, or whole files of tests. It returns the tests that passed, and the output
// of pytest.
func (s suite) run(ctx context.Context, t *testing.T, dir string, tests []string) (passed map[string]bool, text string) {
	var texts [len(s)]string
	var wg sync.WaitGroup
	for i, b := range s {
		var share []string
		for j := i; j < len(tests); j += len(s) {
			share = append(share, tests[j])
		}
		if len(share) > 0 {
			wg.Go(func() { texts[i] = b.run(ctx, t, dir, share) })
		}
	}
	wg.Wait()
	text = strings.Join(texts[:], "")
	return passedTests(text), text
}

// testLine matches the line that pytest prints for each test. The outcome is empty if the process
// has ended before the test.
var testLine = regexp.MustCompile(`(?m)^(kazoo/tests/\S+::\S+) (PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR|)`)

// passedTests returns the tests that passed, according to the output of pytest.
func passedTests(text string) map[string]bool {
	passed := make(map[string]bool)
	for _, line := range testLine.FindAllStringSubmatch(text, -1) {
		switch id := line[1]; line[2] {
		case "PASSED":
			passed[id] = true
		case "ERROR": // in the teardown of a test that passed
			delete(passed, id)
		}
	}
	return passed
}

// summary matches the last line of pytest, for example "== 3 passed in 2.72s ==".
var summary = regexp.MustCompile(`(?m)^=+ .* in [0-9.]+s.* =+$`)

// run runs tests and returns the output of pytest. If a test takes longer than testLimit and cannot be
// interrupted, pytest prints the stacks of its threads and ends; see kazoo_cluster.py. run then
// starts pytest again for the tests that have not begun.
func (b *suiteServer) run(ctx context.Context, t *testing.T, dir string, tests []string) string {
	var text strings.Builder
	var begun []string
	for {
		out, err := b.pytest(ctx, t, dir, tests, begun)
		text.Write(out)
		if err != nil {
			t.Errorf("pytest: %v\n%s", err, text.String())
			return text.String()
		}
		lines := testLine.FindAllSubmatch(out, -1)
		if len(lines) == 0 || summary.Match(out) {
			return text.String()
		}
		for _, line := range lines {
			begun = append(begun, string(line[1]))
		}
		t.Logf("%s hung:\n%s", begun[len(begun)-1], out)
	}
}

// pytest runs tests, except those in done, and returns the output of pytest.
func (b *suiteServer) pytest(ctx context.Context, t *testing.T, dir string, tests, done []string) ([]byte, error) {
	// pytest's own plugin faulthandler would cancel the limit in kazoo_cluster.py after a failure.
	args := []string{
		"-m", "pytest", "-p", "kazoo_cluster", "-p", "no:cacheprovider", "-p", "no:faulthandler",
		"-v", "-rfE", "--tb=short", fmt.Sprintf("--timeout=%g", testLimit.Seconds()), "--rootdir=.",
	}
	if !*wholeSuite {
		for _, slow := range slowTests {
			args = append(args, "--deselect="+slow)
		}
	}
	cmd := zktest.Command(ctx, t, python, append(args, tests...)...)
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	var addrs []string
	for _, door := range b.proxies {
		addrs = append(addrs, door.Addr())
	}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1", "PYTHONPATH="+here+"/testdata",
		"KAZOO_SERVERS="+strings.Join(addrs, ","), "KAZOO_CONTROL="+b.control.URL, "KAZOO_DONE="+strings.Join(done, "\n"))
	out, err := cmd.CombinedOutput()
	switch cmd.ProcessState.ExitCode() {
	case 0, 1, 5: // all tests passed; some failed, or one hung; no tests found
		err = nil
	}
	return out, err
}

// kazooDir returns the directory that contains kazoo, or ends the test if kazoo or what its tests
// need is not installed.
func kazooDir(t *testing.T) string {
	t.Helper()
	cmd := zktest.Command(zktest.Within(t), t, python, "-c", "import kazoo, pytest, pytest_timeout, mock, objgraph, os; "+
		"print(os.path.dirname(os.path.dirname(kazoo.__file__)), end='')")
	dir, err := cmd.Output()
	zktest.Need(t, err == nil, "python3-kazoo python3-pytest python3-pytest-timeout python3-mock python3-objgraph")
	return string(dir)
}

// Kazoo's own tests that pass with ZooKeeper also pass with the sandbox. Tests that fail only
// with the sandbox are repeated once on both servers, because some depend on timing.
func TestKazooSuite(t *testing.T) {
	t.Parallel()
	dir := kazooDir(t)
	ctx, cancel := context.WithTimeout(context.Background(), suiteLimit)
	defer cancel()
	box := zktest.Sandbox(t, sandbox.Options{SuperDigest: superDigest})
	server := zktest.Start(t, zktest.JavaProperty("zookeeper.DigestAuthenticationProvider.superDigest", superDigest))
	suites := [2]suite{newSuite(t, server.Addr()), newSuite(t, box.Addr())}
	tests := testFiles(t, dir)
	for try := range 2 {
		var passed [2]map[string]bool
		var texts [2]string
		var wg sync.WaitGroup
		for i, s := range suites {
			wg.Go(func() { passed[i], texts[i] = s.run(ctx, t, dir, tests) })
		}
		wg.Wait()
		t.Logf("%d of kazoo's tests pass with the real server, %d with the sandbox", len(passed[0]), len(passed[1]))
		if try == 0 && len(passed[0]) < suiteTests {
			t.Errorf("too few with the real server:\n%s", texts[0])
		}
		maps.DeleteFunc(passed[0], func(id string, _ bool) bool { return passed[1][id] })
		if tests = slices.Sorted(maps.Keys(passed[0])); len(tests) == 0 {
			return
		}
		t.Logf("with the sandbox only these fail: %q\n%s", tests, texts[1])
	}
	t.Errorf("of kazoo's tests %d fail with the sandbox only", len(tests))
}

// longFiles lists the files with the slowest tests. They are run first, so that each process
// gets at most one of them.
var longFiles = []string{"partitioner", "watchers", "eventlet_handler", "lock", "client", "cache"}

// testFiles returns the paths of kazoo's test files, relative to dir.
func testFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "kazoo/tests/test_*.py"))
	if err != nil || len(files) == 0 {
		t.Fatal("kazoo's tests are not there: ", err)
	}
	for i, name := range files {
		files[i] = "kazoo/tests/" + filepath.Base(name)
	}
	place := func(file string) int {
		long := slices.Index(longFiles, strings.TrimSuffix(strings.TrimPrefix(file, "kazoo/tests/test_"), ".py"))
		if long < 0 {
			return len(longFiles)
		}
		return long
	}
	slices.SortStableFunc(files, func(a, b string) int { return place(a) - place(b) })
	return files
}
