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

// MainWithProgram is like Main, but also builds the program zksh for the tests, with the given
// version. It puts the program's directory first in PATH. If the flag -run selects no test, it
// does not build the program, so that a mistyped test name is reported at once.
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

// anySelected reports whether the flag -run selects at least one test, or -bench is set. It runs
// the test binary with -test.list, because package testing has no function that lists the tests.
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
	// If the pattern is invalid, return true, because go test then reports the error.
	return err != nil || len(names) > 0
}

// ProgramEnv returns environment variables for running the program zksh in tests. A program with
// the race detector then exits without the usual delay of a second, and all systems resolve host
// names in the same way.
//
// MainWithProgram sets these variables for child processes. A test must pass them itself if it
// starts the program with another environment.
func ProgramEnv() []string { return []string{"GORACE=atexit_sleep_ms=0", "GODEBUG=netdns=go"} }

// build builds zksh from the root of the module, which is two levels above the test's directory.
// If the test uses the race detector, so does the program. Otherwise, the program is built
// without cgo, like a release.
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

// UnderRace reports whether the test binary was built with the race detector, under which code is
// about ten times slower.
func UnderRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// statSources calls os.Stat for all source files of the program. This lets the go command record
// that the test depends on these files. It then does not reuse a cached result after one of them
// has changed.
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
