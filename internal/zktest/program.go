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

// MainWithProgram is Main for tests that run the program zksh. It builds the program with
// the given version and puts its directory first in PATH. If -run selects no test, it builds
// nothing, so that go test reports a mistyped name at once.
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

// anySelected reports whether -run selects a test, or -bench is set. The testing package
// has no function that lists tests, so anySelected runs the test binary with -test.list.
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
	return err != nil || len(names) > 0 // go test reports an invalid pattern
}

// ProgramEnv returns environment variables for the program zksh: with the race detector, the
// program exits at once instead of a second later, and it resolves names in the same way
// everywhere. Tests need it if they start the program without their own environment.
func ProgramEnv() []string { return []string{"GORACE=atexit_sleep_ms=0", "GODEBUG=netdns=go"} }

// build builds the program at the root of the module, two levels above the directory of a
// test. If the test runs under the race detector, so does the program; otherwise it is built
// without cgo, like the published program.
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

// UnderRace reports whether this test runs under the race detector, which makes the code of
// the test about ten times slower.
func UnderRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// statSources calls os.Stat for all source files of the program. It makes go test notice
// when a cached result is stale, because go test does not see the files that go build reads.
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
