//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zksh/zksh/internal/jute"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/internal/zktest/zksession"
)

// lossLines is the number of lines of a script that loses its server.
const lossLines = 400

// runScriptThroughLoss runs a script of lossLines creates through a proxy. The proxy cuts the
// connection after 50 of them, then refuses connections for the time away; 0 means for ever. It
// returns the script's output, its exit status, how long it ran, and the names of the created
// znodes.
func runScriptThroughLoss(t *testing.T, away time.Duration, asFile bool, options ...string) (said string, status int, took time.Duration, made []string) {
	t.Helper()
	server := zktest.Shared(t).Addr()
	observer := zksession.Open(t, zkconn.Config{Servers: server, Timeout: zktest.Patience})
	root := fmt.Sprintf("/gone-%d", time.Now().UnixNano())
	zktest.Must(t, zkconn.Exec(zktest.Within(t), observer, zkconn.Create(root, nil, zkconn.OpenACL(), zkconn.CreateMode{})))
	proxy := zktest.NewProxy(t, server)
	cut := proxy.CutAfterAndRefuse(jute.OpCreate, 50)
	go func() { // ends after the outage or with the test
		select {
		case <-cut:
			if away > 0 {
				time.Sleep(away)
				proxy.Refuse(false)
			}
		case <-t.Context().Done():
		}
	}()
	var lines strings.Builder
	for i := range lossLines {
		fmt.Fprintf(&lines, "create /n%04d\n", i+1)
	}
	args := append([]string{"-server", proxy.Addr() + root, "-timeout", "4000"}, options...)
	dir := t.TempDir()
	if asFile {
		zktest.Must(t, os.WriteFile(filepath.Join(dir, "lines"), []byte(lines.String()), 0o600))
		args = append(args, "-f", "lines")
	}
	cmd := exec.Command("zksh", args...)
	var errs, out strings.Builder
	cmd.Dir, cmd.Env, cmd.Stderr, cmd.Stdout = dir, homeEnv(dir), &errs, &out
	if !asFile {
		cmd.Stdin = strings.NewReader(lines.String())
	}
	begin := time.Now()
	zktest.Must(t, cmd.Start())
	status = exitStatus(t, cmd)
	took = time.Since(begin)
	list, err := zkconn.Do(zktest.Within(t), observer, zkconn.List(root))
	zktest.Must(t, err)
	slices.Sort(list.Names)
	return errs.String() + out.String(), status, took, list.Names
}

// last returns the last of some names, or "" if there are none.
func last(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[len(names)-1]
}

var notRun = regexp.MustCompile(`cannot connect: .*waited 4s for a server to come back; line (\d+) and all later lines were not run`)

// A script that loses its server waits once, for as long as a session lasts, then ends. All
// lines that ran come before those that did not run.
func TestScriptEndsWithItsServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file    bool
		options []string
	}{
		{false, nil},
		{true, nil},
		{true, []string{"-o", "json", "-k"}},
		{false, []string{"-o", "json"}},
	} {
		t.Run(fmt.Sprintf("%v %v", c.file, c.options), func(t *testing.T) {
			t.Parallel()
			said, status, took, made := runScriptThroughLoss(t, 0, c.file, c.options...)
			found := notRun.FindAllStringSubmatch(said, -1)
			json := slices.Contains(c.options, "json")
			if want := 1; status != 69 || (len(found) != want && !json) || json && len(found) != 2 || took > 4*time.Second+zktest.Patience/2 {
				t.Fatalf("status %d after %s: %s", status, took, said)
			}
			var from int
			if _, err := fmt.Sscan(found[0][1], &from); err != nil {
				t.Fatal(err)
			}
			if last(made) != fmt.Sprintf("n%04d", len(made)) || len(made) >= from {
				t.Errorf("%d znodes, the last is %q, and lines from %d on were not run", len(made), last(made), from)
			}
		})
	}
}

// If the server comes back in time, the script continues and reports the lines that were lost.
func TestScriptContinuesWhenServerReturns(t *testing.T) {
	t.Parallel()
	said, status, _, made := runScriptThroughLoss(t, 2*time.Second, true)
	if status != 69 || strings.Contains(said, "not run") || last(made) != fmt.Sprintf("n%04d", lossLines) {
		t.Errorf("status %d, the last znode is %q: %s", status, last(made), said)
	}
	if missing := lossLines - len(made); missing > 64 {
		t.Errorf("%d are missing: %s", missing, said)
	}
}

// With -e, a script ends at its first error, so a lost request ends it. If zksh notices the loss
// between two requests, no line has failed yet, and the script waits for the server too.
func TestScriptWithEWaitsForServer(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{0, 2 * time.Second} {
		var status int
		var said string
		zktest.Eventually(t, "the loss is noticed before the next line", func() bool {
			status, said = runStoppingScript(t, away)
			return !strings.Contains(said, "ConnectionLoss")
		})
		switch {
		case away > 0 && (status != 0 || said != ""),
			away == 0 && (status != 69 || !strings.HasPrefix(said, "stdin:2: exists: cannot connect: ") || len(notRun.FindAllString(said, -1)) != 1):
			t.Errorf("away for %s: status %d: %s", away, status, said)
		}
	}
}

// runStoppingScript runs a script with -e that loses its server between two lines, for the time
// away or, if away is 0, for ever.
func runStoppingScript(t *testing.T, away time.Duration) (status int, said string) {
	proxy := zktest.NewProxy(t, zktest.Shared(t).Addr())
	path := fmt.Sprintf("/gone-%d", time.Now().UnixNano())
	p := openPipeline(t, "-server", proxy.Addr(), "-timeout", "4000", "-e")
	p.ask(t, "create "+path, "Created "+path)
	proxy.Refuse(true)
	proxy.Cut()
	if away > 0 {
		back := time.AfterFunc(away, func() { proxy.Refuse(false) })
		defer back.Stop()
	}
	time.Sleep(20 * time.Millisecond) // usually enough for zksh to notice; nothing shows whether it has
	if _, err := fmt.Fprintf(p.in, "exists %[1]s\nset %[1]s x\nset %[1]s y\n", path); err != nil {
		t.Fatal(err)
	}
	p.in.Close()
	status = exitStatus(t, p.cmd)
	return status, p.errs.String()
}

// Without any server, a script ends at the first line that needs one. Lines before it run,
// including one that connects to another server.
func TestScriptWithoutAServer(t *testing.T) {
	t.Parallel()
	server := zktest.Shared(t).Addr()
	for _, options := range [][]string{nil, {"-e"}, {"-k"}} {
		for lines, says := range map[string]string{
			strings.Repeat("exists /\n", 12):                                 "stdin:1: exists: cannot connect: REFUSED: connection refused; line 1 and all later lines were not run\n",
			"echo one\nexists /\necho two\n":                                 "stdin:2: exists: cannot connect: REFUSED: connection refused; line 2 and all later lines were not run\none\n",
			"connect " + server + "\nexists /zookeeper\nsync /\necho done\n": "",
			"begin\ncreate /never\ncommit\necho two\n":                       "stdin:3: commit: nothing was done: cannot connect: REFUSED: connection refused; line 4 and all later lines were not run\n",
		} {
			refused := zktest.Refused(t)
			cmd := exec.Command("zksh", append([]string{"-server", refused, "-timeout", "20000"}, options...)...)
			var errs, out strings.Builder
			cmd.Env, cmd.Stdin, cmd.Stderr, cmd.Stdout = homeEnv(t.TempDir()), strings.NewReader(lines), &errs, &out
			begin := time.Now()
			zktest.Must(t, cmd.Start())
			status := exitStatus(t, cmd)
			if took := time.Since(begin); took > 15*time.Second {
				t.Errorf("took %s", took)
			}
			said := strings.ReplaceAll(errs.String()+out.String(), refused, "REFUSED")
			if says == "" && (status != 0 || errs.Len() > 0) || says != "" && (status != 69 || said != says) {
				t.Errorf("%v: %q: status %d: %s", options, lines, status, said)
			}
		}
	}
}
