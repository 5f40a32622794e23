//go:build unix

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/pflag"

	"github.com/zksh/zksh/commands"
	"github.com/zksh/zksh/commands/transfer"
	"github.com/zksh/zksh/commands/undo"
	"github.com/zksh/zksh/internal/app"
	"github.com/zksh/zksh/internal/app/tutorial"
	"github.com/zksh/zksh/internal/sandbox"
	"github.com/zksh/zksh/internal/zkconn"
	"github.com/zksh/zksh/internal/zktest"
	"github.com/zksh/zksh/lockcmd"
	"github.com/zksh/zksh/shell"
)

// TestScripts runs the scripts in testdata/script. Besides testscript's own commands,
// variables and conditions, a script can use:
//
//	zksh args…                run the program, like exec
//	status N prog args…       run a program that must exit with status N
//	within 25s N prog args…   like status, within a time limit: much longer than it takes on a busy
//	                          machine, and shorter than zksh's usual timeout of 30s
//	server NAME [kind]        start a server for this script; $NAME is its address.
//	                          The kinds are plain (the default), quota, quorum and readonly
//	stop NAME, restart NAME   stop or restart such a server
//	$ZKSH_SERVER              the shared server, with a chroot for this script
//	$SERVER, $CHROOT          the two parts of $ZKSH_SERVER
//	$REFUSED $SILENT $SSH $HTTP   addresses where no ZooKeeper answers
//	[before:3.6]              whether the server is, or answers as, an older version; another
//	                          product than ZooKeeper counts as older than every version
//	[product]                 whether the server answers as another product than ZooKeeper
//
// TestScripts leaves the scripts in serverless to TestScriptsOnSandbox, unless everyScript returns
// true.
func TestScripts(t *testing.T) {
	const version = string(sandbox.DefaultVersion)
	dir := scriptDir
	if !everyScript() {
		dir = scriptsWith(t, dir, func(name, _ string) bool { return !slices.Contains(serverless, name) })
	}
	runScripts(t, dir, version, zktest.Shared(t).Addr(), func(ts *testscript.TestScript, kind string) scriptServer {
		opts, ok := serverKinds[kind]
		if !ok {
			ts.Fatalf("no server is of kind %s", kind)
		}
		return zktest.Start(ts.Value(testKey).(testing.TB), append(opts, zktest.Heap(64))...)
	})
}

const scriptDir = "../../testdata/script"

// serverless lists the scripts about what zksh does by itself: how it reads options, lines, files
// and clusters, and what it prints and stores. What they expect does not depend on the server.
var serverless = []string{
	"batch", "binary", "brokenpipe", "cd", "clear", "cluster", "digest", "echo", "edit", "exit", "help", "history",
	"hostile", "lines", "load", "log", "mistakes", "oneshot", "options", "outlet", "private", "pwd", "quit", "quotes",
	"redo", "sandbox", "source", "streams", "tutorial", "version", "words",
}

// everyScript reports whether each test of scripts runs all of them: with -versions, or if -run
// selects subtests. Otherwise, each script runs once with the default version of the server: those
// in serverless on the sandbox, and the others on a real server.
func everyScript() bool {
	return *allVersions || updateScripts() || strings.Contains(flag.Lookup("test.run").Value.String(), "/")
}

// updateScripts reports whether the scripts are rewritten with the output of the commands.
func updateScripts() bool { return os.Getenv("UPDATE_SCRIPTS") != "" }

// olderThan reports whether a version such as 3.9 is older than another one, such as 3.10.
func olderThan(version, other string) bool {
	var numbers [2][2]int
	for i, v := range []string{version, other} {
		if n, err := fmt.Sscanf(v, "%d.%d", &numbers[i][0], &numbers[i][1]); n != 2 || err != nil {
			panic(fmt.Sprintf("invalid version %q", v))
		}
	}
	return slices.Compare(numbers[0][:], numbers[1][:]) < 0
}

func TestOlderThan(t *testing.T) {
	order := []string{"3.4", "3.5", "3.9", "3.10", "4.0"}
	for i, a := range order {
		for j, b := range order {
			if olderThan(a, b) != (i < j) {
				t.Errorf("%s is older than %s: %t", a, b, olderThan(a, b))
			}
		}
	}
}

// needScript fails the test if the last part of -run matches none of its scripts, which go test
// would count as a success.
func needScript(t *testing.T, dir string) {
	t.Helper()
	patterns := strings.Split(flag.Lookup("test.run").Value.String(), "/")
	if len(patterns) != strings.Count(t.Name(), "/")+2 {
		return
	}
	pattern := regexp.MustCompile(patterns[len(patterns)-1]) // go test has rejected an invalid one
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	zktest.Must(t, err)
	if !slices.ContainsFunc(files, func(file string) bool {
		return pattern.MatchString(strings.TrimSuffix(filepath.Base(file), ".txtar"))
	}) {
		t.Fatalf("no script of testdata/script matches %s", pattern)
	}
}

// A scriptServer is a server that one script starts for itself.
type scriptServer interface {
	Addr() string
	Stop()
	Restart()
}

// runScripts runs the scripts in dir against the server at address shared, which is, or answers
// as, the version or the product as. start starts the servers that scripts request for themselves.
func runScripts(t *testing.T, dir, as, shared string,
	start func(ts *testscript.TestScript, kind string) scriptServer) {
	needScript(t, dir)
	hostile := []string{
		"REFUSED=" + zktest.Refused(t), "SILENT=" + zktest.Silent(t), "SSH=" + zktest.SSHBanner(t), "HTTP=" + zktest.HTTP(t),
	}
	testscript.Run(t, testscript.Params{
		Dir:                dir,
		RequireUniqueNames: true,
		ContinueOnError:    true, // report every failure of a script
		UpdateScripts:      updateScripts(),
		Setup: func(env *testscript.Env) error {
			name := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
			chroot := fmt.Sprintf("/%s-%d", name, time.Now().UnixNano()) // unique with -count=2, too
			if err := makeNode(shared, chroot); err != nil {
				return err
			}
			env.Vars = append(env.Vars, hostile...)
			env.Vars = append(env.Vars, "SERVER="+shared, "CHROOT="+chroot, "ZKSH_SERVER="+shared+chroot,
				"HOME="+env.WorkDir, "XDG_CONFIG_HOME="+filepath.Join(env.WorkDir, ".config"),
				"XDG_STATE_HOME="+filepath.Join(env.WorkDir, ".state"), "TZ=UTC")
			env.Values[serversKey] = map[string]scriptServer{}
			env.Values[testKey] = env.T()
			env.Values[startKey] = start
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"zksh": cmdZksh, "status": cmdStatus, "within": cmdWithin, "server": cmdServer,
			"stop": onServer(scriptServer.Stop), "restart": onServer(scriptServer.Restart),
		},
		Condition: func(cond string) (bool, error) {
			if version, ok := strings.CutPrefix(cond, "before:"); ok {
				return isProduct(as) || olderThan(as, version), nil // products count as the oldest version
			}
			if cond == "product" {
				return isProduct(as), nil
			}
			if cond != "ipv6" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			return hasIPv6(), nil
		},
	})
}

func isProduct(as string) bool { return slices.Contains(sandbox.Products(), sandbox.Product(as)) }

type key int

const (
	serversKey key = iota
	testKey
	startKey
)

// makeNode creates a znode with zksh's own client. If the client did not work, the scripts would
// fail anyway.
func makeNode(server, path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s, err := zkconn.Open(zkconn.Config{Servers: server, Timeout: 20 * time.Second})
	if err != nil {
		return err
	}
	err = zkconn.Exec(ctx, s, zkconn.Create(path, nil, zkconn.OpenACL(), zkconn.CreateMode{}))
	return errors.Join(err, s.Close(ctx))
}

// cmdZksh runs the program; "! zksh" expects it to fail.
func cmdZksh(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("zksh", args...)
	switch {
	case err == nil && neg:
		ts.Fatalf("unexpected success")
	case err != nil && !neg:
		ts.Fatalf("%v", err)
	}
}

func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N prog args…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func cmdWithin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: within DURATION N prog args…")
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	begin := time.Now()
	cmdStatus(ts, false, args[1:])
	if took := time.Since(begin); took > limit {
		ts.Fatalf("took %s, want at most %s", took, limit)
	}
}

var serverKinds = map[string][]zktest.Option{
	"plain": nil,
	"quota": {zktest.EnforceQuota()},
	// SkipACL allows any client to reconfigure.
	"quorum":   {zktest.Quorum(), zktest.SkipACL()},
	"readonly": {zktest.ReadOnlyEnsemble()},
}

func cmdServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: server NAME [kind]")
	}
	start := ts.Value(startKey).(func(*testscript.TestScript, string) scriptServer)
	s := start(ts, append(args, "plain")[1])
	ts.Value(serversKey).(map[string]scriptServer)[args[0]] = s
	ts.Setenv(args[0], s.Addr())
}

func onServer(do func(scriptServer)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != 1 {
			ts.Fatalf("give the name of one server")
		}
		s := ts.Value(serversKey).(map[string]scriptServer)[args[0]]
		if s == nil {
			ts.Fatalf("no server %s was started", args[0])
		}
		do(s)
	}
}

// everyCommand returns all commands that main passes to a shell.
func everyCommand(locks *lockcmd.Table) [][]*commands.Command {
	return [][]*commands.Command{commands.All(), {undo.Command(undo.Log{})}, transfer.Commands(), locks.Commands(), app.SandboxCommand(nil), tutorial.New("").Commands()}
}

// registry returns a registry of all commands.
func registry() *commands.Registry {
	return shell.New(shell.Config{
		Commands: everyCommand(lockcmd.New()),
	}).Registry()
}

// Every command and every alias has a script that runs it.
func TestEveryCommandHasAScript(t *testing.T) {
	for _, c := range registry().All() {
		for _, name := range append([]string{c.Name}, c.Aliases...) {
			text, err := os.ReadFile(filepath.Join(scriptDir, name+".txtar"))
			if err != nil {
				t.Errorf("%s has no script: %v", name, err)
				continue
			}
			if !regexp.MustCompile(`(?m)^(.*zksh .*)?\b` + name + `\b`).Match(text) {
				t.Errorf("the script %s.txtar never runs %s", name, name)
			}
		}
	}
}

// A usage line names exactly the flags of its command, each in its short form if it has one.
func TestUsageNamesEachFlag(t *testing.T) {
	word := regexp.MustCompile(`(?:^|[\s\[|])--?(\w[\w-]*)`)
	for _, c := range registry().All() {
		usage, _, _ := strings.Cut(c.Args, "#")
		var named, declared []string
		for _, m := range word.FindAllStringSubmatch(usage, -1) {
			named = append(named, m[1])
		}
		c.FlagSet().VisitAll(func(f *pflag.Flag) {
			if f.Shorthand == "?" { // omitted, as in zkCli's usage lines
				return
			}
			if f.Shorthand != "" {
				declared = append(declared, f.Shorthand)
			} else {
				declared = append(declared, f.Name)
			}
			if f.Usage == "" {
				t.Errorf("%s: -%s is not explained", c.Name, f.Name)
			}
		})
		slices.Sort(named)
		slices.Sort(declared)
		if !slices.Equal(named, declared) {
			t.Errorf("%s: the usage line %q names the flags %q, declared are %q", c.Name, c.Args, named, declared)
		}
		if c.Summary == "" || c.Examples[0] == "" || c.Group == "" || !strings.HasPrefix(c.Examples[0], c.Name) {
			t.Errorf("%s lacks a summary, a group, or an example that begins with its name", c.Name)
		}
	}
}

func hasIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return false
	}
	return l.Close() == nil
}
