package zktest

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// MainWithProgram is like Main, but for tests that run the program zksh. It builds the program
// with the given version and puts its directory first in PATH. If the flag -run selects no test,
// it builds nothing, so that go test reports a mistyped test name without delay.
func MainWithProgram(m *testing.M, version string) {
	flag.Parse()
	if !anySelected() {
		Main(m)
		return
	}
	dir, err := build(version)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer os.RemoveAll(dir)
	os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, e := range ProgramEnv() {
		name, value, _ := strings.Cut(e, "=")
		os.Setenv(name, value)
	}
	Main(m)
}

// anySelected reports whether the flag -run selects at least one test, or -bench is set. The
// testing package has no function that lists tests, so anySelected runs the test binary with
// -test.list.
func anySelected() bool {
	if flag.Lookup("test.list").Value.String() != "" {
		return false
	}
	if flag.Lookup("test.bench").Value.String() != "" {
		return true
	}
	pattern, _, _ := strings.Cut(flag.Lookup("test.run").Value.String(), "/")
	if pattern == "" {
		return true
	}
	names, err := exec.Command(os.Args[0], "-test.list", pattern).Output()
	return err != nil || len(names) > 0 // if the pattern is invalid, go test will report it
}

// ProgramEnv returns environment variables for the program zksh. With them, a program built with
// the race detector exits without the usual delay of a second, and names are resolved in the
// same way on all systems. MainWithProgram sets them; a test that starts the program without the
// environment of the test process must pass them.
func ProgramEnv() []string { return []string{"GORACE=atexit_sleep_ms=0", "GODEBUG=netdns=go"} }

// build builds zksh from the root of the module, which is two levels above the directory of the
// test. The program is built with the race detector if the test is. Otherwise, it is built
// without cgo, like a released program.
func build(version string) (dir string, err error) {
	const root = "../.."
	if err := statSources(root); err != nil {
		return "", err
	}
	if dir, err = os.MkdirTemp("", "zktest-program-"); err != nil {
		return "", err
	}
	args := []string{"build", "-ldflags", "-X main.version=" + version, "-o", filepath.Join(dir, "zksh")}
	c := "CGO_ENABLED=0"
	if UnderRace() {
		args, c = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, root)...)
	cmd.Env = append(os.Environ(), c)
	if out, err := cmd.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return dir, nil
}

// UnderRace reports whether the running test was built with the race detector, which makes its
// code about ten times slower.
func UnderRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// statSources calls os.Stat for all source files of the program, so that go test does not reuse a
// cached result after a source file has changed. Otherwise go test would not know which files go
// build reads.
func statSources(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := ""
		if d != nil {
			name = d.Name()
		}
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata"):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go") || name == "go.mod" || name == "go.sum":
			_, err = os.Stat(path)
		}
		return err
	})
}
