// Package interop tests zksh together with clients of other projects.
//
//   - TestKazoo, TestCurator and TestZkCli run these clients against the sandbox and ZooKeeper,
//     which must give the same results.
//   - TestLocks, TestChaos and TestFence check that zksh's locks work together with those of
//     Curator, kazoo and go-zookeeper, also under faults.
//
// The package contains only tests.
package interop

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

func TestMain(m *testing.M) { zktest.MainWithProgram(m, "dev") }

// python is Debian's interpreter, which finds Debian's package of kazoo.
const python = "/usr/bin/python3"

// clientTimeout is the longest time that a client may run, on a machine under load.
const clientTimeout = 2 * time.Minute

// A testServer is a server and a function that disconnects its clients for a moment.
type testServer struct {
	addr string
	cut  func()
}

const cutTime = 300 * time.Millisecond

func realServer(t *testing.T) testServer {
	p := zktest.NewProxy(t, zktest.Shared(t).Addr())
	return testServer{p.Addr(), func() {
		p.Refuse(true)
		p.Cut()
		time.Sleep(cutTime)
		p.Refuse(false)
	}}
}

func sandboxServer(t *testing.T) testServer {
	s := zktest.Sandbox(t, sandbox.Options{})
	return testServer{s.Addr(), func() {
		s.Pause()
		time.Sleep(cutTime)
		s.Resume()
	}}
}

// compare runs a client on both servers in parallel, and compares the outputs. normalize
// removes what differs between any two runs. The client must print at least the given number
// of lines.
func compare(t *testing.T, lines int, normalize func(out string) []string, stdin string, name string, args ...string) {
	var outs [2]string
	var wg sync.WaitGroup
	for i, b := range []testServer{realServer(t), sandboxServer(t)} {
		wg.Go(func() { outs[i] = run(t, b, stdin, name, args...) })
	}
	wg.Wait()
	want, have := normalize(outs[0]), normalize(outs[1])
	if len(want) < lines {
		t.Errorf("%d lines with the real server, want %d:\n%s", len(want), lines, outs[0])
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("-real +sandbox:\n%s", diff)
	}
}

// run runs a client, with ADDR in its arguments replaced by the server's address, and returns
// its output. When the client prints @cut, run disconnects it and then sends it a line.
func run(t *testing.T, b testServer, stdin, name string, args ...string) string {
	args = slices.Clone(args)
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "ADDR", b.addr)
	}
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	cmd := zktest.Command(ctx, t, name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Error(err)
		return ""
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return ""
	}
	if stdin != "" {
		go func() { // ends when the client exits
			_, _ = io.WriteString(in, stdin)
			_ = in.Close()
		}()
	}
	var text strings.Builder
	for s := bufio.NewScanner(out); s.Scan(); {
		text.WriteString(s.Text() + "\n")
		if s.Text() == "@cut" {
			b.cut()
			if _, err := io.WriteString(in, "\n"); err != nil {
				t.Error(err)
			}
		}
	}
	// Ignore the exit status of zkCli, which is that of its last command.
	if err := cmd.Wait(); err != nil && stdin == "" {
		t.Errorf("%s: %v\n%s\n%s", name, err, text.String(), errs.String())
	}
	if stdin != "" {
		text.Write(errs.Bytes())
	}
	return text.String()
}

func splitLines(out string) []string { return strings.Split(strings.TrimSuffix(out, "\n"), "\n") }

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// needKazoo ends a test if Debian's package of kazoo is not installed.
func needKazoo(t *testing.T) {
	t.Helper()
	err := zktest.Command(zktest.Within(t), t, python, "-c", "import kazoo").Run()
	zktest.Need(t, err == nil, "python3-kazoo")
}

// compile compiles a Java program in testdata into the directory dir.
func compile(t *testing.T, dir, classPath, file string) {
	t.Helper()
	javac := zktest.Command(zktest.Within(t), t, "javac", "-J-XX:TieredStopAtLevel=1", "-d", dir, "-cp", classPath, file)
	if out, err := javac.CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
}

func TestKazoo(t *testing.T) {
	t.Parallel()
	needKazoo(t)
	compare(t, 31, splitLines, "", python, "testdata/client.py", "ADDR")
}

func TestCurator(t *testing.T) {
	t.Parallel()
	const jar = "/usr/share/java/curator-recipes.jar" // its manifest names the others
	zktest.NeedProgram(t, "javac", "default-jdk-headless")
	zktest.Need(t, exists(jar), "libcurator-recipes-java")
	dir := t.TempDir()
	cp := jar + ":/usr/share/java/slf4j-nop.jar:" + dir
	compile(t, dir, cp, "testdata/Client.java")
	compare(t, 35, splitLines, "", "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", cp, "Client", "ADDR")
}

// eventHead is the line that zkCli prints before an event. zkCli prints events between the
// answers, at any time, and the two lines of an event may be separated.
const eventHead = "WATCHER::"

var (
	event   = regexp.MustCompile(`(?m)^(` + eventHead + `|WatchedEvent .*)$`)
	varying = regexp.MustCompile(`0x[0-9a-f]+|(?m)^[cm]time = .*|127\.0\.0\.1:\d+`)
)

func normalizeCli(out string) []string {
	events := slices.DeleteFunc(event.FindAllString(out, -1), func(e string) bool {
		// zkCli may exit before it prints the last event.
		return e == eventHead || strings.Contains(e, "state:Closed")
	})
	var answers []string
	for l := range strings.SplitSeq(varying.ReplaceAllString(event.ReplaceAllString(out, ""), "…"), "\n") {
		if l != "" && !strings.HasPrefix(l, "SLF4J:") {
			answers = append(answers, l)
		}
	}
	// The order of the lines of whoami depends on a hash table.
	if i := slices.Index(answers, "Auth scheme: User"); i >= 0 && i+3 <= len(answers) {
		slices.Sort(answers[i+1 : i+3])
	}
	return append(answers, events...)
}

func TestZkCli(t *testing.T) {
	t.Parallel()
	const zkCli = "/usr/share/zookeeper/bin/zkCli.sh"
	zktest.Need(t, exists(zkCli), "zookeeper")
	script, err := os.ReadFile("testdata/zkcli.txt")
	zktest.Must(t, err)
	compare(t, 60, normalizeCli, string(script), zkCli, "-server", "ADDR")
}
