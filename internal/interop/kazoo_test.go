package interop

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

var wholeSuite = flag.Bool("kazoo", false, "run those of kazoo's tests too that take minutes")

// slowTests are out of place with a single server: TestReconfig waits for the
// members of an ensemble until its time is up, and the tests of SASL send
// credentials until their session has expired.
var slowTests = []string{"kazoo/tests/test_client.py::TestReconfig", "kazoo/tests/test_sasl.py"}

const (
	suiteLimit  = 15 * time.Minute
	suiteTests  = 400                                  // at least so many pass with the real server
	superDigest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=" // of "super:test", as kazoo's tests have it
)

// suiteBed is a server as kazoo's tests want it: an ensemble of three, whose
// members they stop and start. All three are doors to one server, and a member
// that is stopped is a door that is shut.
type suiteBed struct {
	doors   []*zktest.Proxy
	control *httptest.Server
}

func newSuiteBed(t *testing.T, addr string) *suiteBed {
	b := &suiteBed{}
	mux := http.NewServeMux()
	for i := range 3 {
		door := zktest.NewProxy(t, addr)
		b.doors = append(b.doors, door)
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

// run runs tests and returns those that pass, and what pytest says.
func (b *suiteBed) run(t *testing.T, dir string, tests []string) (passed map[string]bool, text string) {
	ctx, cancel := context.WithTimeout(context.Background(), suiteLimit)
	defer cancel()
	args := []string{"-m", "pytest", "-p", "kazoo_cluster", "-p", "no:cacheprovider", "-q", "-rpfE", "--tb=short", "--timeout=60", "--rootdir=."}
	if !*wholeSuite {
		for _, slow := range slowTests {
			args = append(args, "--deselect="+slow)
		}
	}
	cmd := exec.CommandContext(ctx, python, append(args, tests...)...)
	cmd.Dir, cmd.WaitDelay = dir, 5*time.Second
	here, err := os.Getwd()
	if err != nil {
		t.Error(err)
		return nil, ""
	}
	var addrs []string
	for _, door := range b.doors {
		addrs = append(addrs, door.Addr())
	}
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+here+"/testdata",
		"KAZOO_SERVERS="+strings.Join(addrs, ","), "KAZOO_CONTROL="+b.control.URL)
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != 1 { // 1: some tests failed
		t.Errorf("pytest: %v\n%s", err, out)
	}
	passed = make(map[string]bool)
	for line := range bytes.Lines(out) {
		switch what, id, _ := strings.Cut(strings.TrimSpace(string(line)), " "); what {
		case "PASSED":
			passed[id] = true
		case "ERROR": // in its clean-up
			id, _, _ = strings.Cut(id, " ")
			delete(passed, id)
		}
	}
	return passed, string(out)
}

// TestKazooSuite runs kazoo's own tests: what passes with the real server must
// pass with the sandbox. Timing decides some, so what fails gets another try, on
// both servers.
func TestKazooSuite(t *testing.T) {
	t.Parallel()
	dir, err := exec.Command(python, "-c", "import kazoo, pytest, pytest_timeout, mock, objgraph, os; print(os.path.dirname(os.path.dirname(kazoo.__file__)), end='')").Output()
	need(t, err == nil, "python3-kazoo python3-pytest python3-pytest-timeout python3-mock python3-objgraph")
	_, addr := newSandbox(t, sandbox.Options{SuperDigest: superDigest})
	server := zktest.Start(t, zktest.JavaProperty("zookeeper.DigestAuthenticationProvider.superDigest", superDigest))
	beds := [2]*suiteBed{newSuiteBed(t, server.Addr()), newSuiteBed(t, addr)}
	tests := []string{"kazoo/tests"}
	for try := range 2 {
		var passed [2]map[string]bool
		var texts [2]string
		var wg sync.WaitGroup
		for i, b := range beds {
			wg.Go(func() { passed[i], texts[i] = b.run(t, string(dir), tests) })
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
