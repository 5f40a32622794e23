//go:build unix

package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zktest"
)

// realOnly lists the scripts, by name, of which the sandbox runs only the part before the given
// line. Files at the end of the script are kept.
var realOnly = map[string]struct{ line, why string }{
	"config":   {"server Q quorum", "the sandbox has no ensemble"},
	"reconfig": {"server Q quorum", "the sandbox has no ensemble"},
	"readonly": {"server R readonly", "the sandbox has no majority to lose"},
	"restart":  {"server S", "the sandbox keeps nothing over a restart"},
}

var allVersions = flag.Bool("versions", false,
	"run all scripts with a real server, and with the sandbox as every version and product; set by make full")

// TestScriptsOnSandbox runs the scripts of TestScripts against the sandbox. As the default
// version, its answers must be the same as the real server's. As the oldest version, they must
// match what the scripts expect of it.
//
// With -short, all scripts run with the default version, because TestScripts then runs none. With
// -versions, all scripts run with every version that the sandbox emulates. Otherwise, only the scripts
// in serverless run with the default version, and those that depend on the version with the oldest.
func TestScriptsOnSandbox(t *testing.T) {
	t.Parallel()
	if updateScripts() {
		t.Skip("what the scripts expect comes from the real server")
	}
	dir := sandboxScripts(t)
	for i, as := range sandbox.Versions() {
		dir := dir
		switch {
		case *allVersions:
		case as == sandbox.DefaultVersion:
			if !testing.Short() && !everyScript() {
				dir = scriptsWith(t, dir, func(name, _ string) bool { return slices.Contains(serverless, name) })
			}
		case i > 0 || testing.Short():
			continue
		default:
			dir = scriptsWith(t, dir, func(_, text string) bool { return strings.Contains(text, "[before:") })
		}
		t.Run(string(as), func(t *testing.T) {
			t.Parallel()
			shared := zktest.Sandbox(t, sandbox.Options{As: as}).Addr()
			runScripts(t, dir, string(as), shared, func(ts *testscript.TestScript, kind string) scriptServer {
				opt, ok := map[string]sandbox.Options{"plain": {}, "quota": {EnforceQuota: true}}[kind]
				if !ok {
					ts.Fatalf("no sandbox is of kind %s; see realOnly", kind)
				}
				opt.As = as
				tb := ts.Value(testKey).(testing.TB)
				return scriptBox{zktest.Sandbox(tb, opt), tb}
			})
		})
	}
}

// lockScripts lists the scripts that also run on emulated third-party servers. They are the ones
// about locks.
var lockScripts = []string{"lock", "rlock", "wlock", "unlock", "locks", "revoke", "deadlocks", "fence", "session", "servers", "lockdemo"}

// raftKeeperScripts lists those of lockScripts that run on RaftKeeper without -versions. They depend
// on its sessions, its opcodes and its four-letter commands, which differ from those of ClickHouse.
var raftKeeperScripts = []string{"rlock", "deadlocks", "session", "servers"}

// TestLockScriptsOnProducts runs the scripts about locks against the sandbox as ClickHouse
// Keeper and as RaftKeeper. The condition [product] marks lines for these servers.
func TestLockScriptsOnProducts(t *testing.T) {
	t.Parallel()
	if updateScripts() {
		t.Skip("what the scripts expect comes from the real server")
	}
	all, dir := sandboxScripts(t), t.TempDir()
	for _, name := range lockScripts {
		zktest.Must(t, os.Rename(filepath.Join(all, name+".txtar"), filepath.Join(dir, name+".txtar")))
	}
	for _, as := range sandbox.Products() {
		dir := dir
		if as == sandbox.RaftKeeper && !*allVersions {
			dir = scriptsWith(t, dir, func(name, _ string) bool { return slices.Contains(raftKeeperScripts, name) })
		}
		t.Run(string(as), func(t *testing.T) {
			t.Parallel()
			opt := sandbox.Options{Quirks: sandbox.Quirks{Product: as}}
			shared := zktest.Sandbox(t, opt).Addr()
			runScripts(t, dir, string(as), shared, func(ts *testscript.TestScript, kind string) scriptServer {
				if kind != "plain" {
					ts.Fatalf("no sandbox is of kind %s here", kind)
				}
				tb := ts.Value(testKey).(testing.TB)
				return scriptBox{zktest.Sandbox(tb, opt), tb}
			})
		})
	}
}

// sandboxScripts returns a directory with the scripts, or parts of them, that the sandbox runs.
func sandboxScripts(t *testing.T) string {
	dir, cut := t.TempDir(), 0
	files, err := filepath.Glob(filepath.Join(scriptDir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text := readFile(t, file)
		if part, ok := realOnly[strings.TrimSuffix(filepath.Base(file), ".txtar")]; ok {
			before, after, found := strings.Cut(text, "\n"+part.line+"\n")
			if !found {
				t.Fatalf("%s has no line %q any more", file, part.line)
			}
			text = before + "\n"
			if at := strings.Index(after, "\n-- "); at >= 0 {
				text += after[at+1:]
			}
			t.Logf("%s: not from %q on: %s", filepath.Base(file), part.line, part.why)
			cut++
		}
		zktest.Must(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(text), 0o600))
	}
	if cut != len(realOnly) {
		t.Errorf("realOnly names %d scripts, of which %d exist", len(realOnly), cut)
	}
	return dir
}

// scriptsWith returns a directory with copies of the scripts in dir that selected chooses by their
// name and text. It fails the test if it chooses none or all of them.
func scriptsWith(t *testing.T, dir string, selected func(name, text string) bool) string {
	some := t.TempDir()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	zktest.Must(t, err)
	count := 0
	for _, file := range files {
		name := filepath.Base(file)
		if text := readFile(t, file); selected(strings.TrimSuffix(name, ".txtar"), text) {
			zktest.Must(t, os.WriteFile(filepath.Join(some, name), []byte(text), 0o600))
			count++
		}
	}
	if count == 0 || count == len(files) {
		t.Fatalf("%d of %d scripts are selected", count, len(files))
	}
	return some
}

// A scriptBox is a sandbox that serves as a scriptServer.
type scriptBox struct {
	*zktest.Box
	tb testing.TB
}

// Stop implements scriptServer.
func (s scriptBox) Stop() { _ = s.Close() }

// Restart implements scriptServer.
func (s scriptBox) Restart() { s.tb.Fatal("a sandbox keeps nothing over a restart; see realOnly") }
