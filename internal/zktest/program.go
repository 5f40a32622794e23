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

// MainWithProgram is Main for tests that run the program zksh: it builds the program
// with that version and puts it first on the path. If no test is selected, it builds
// nothing, so that a mistyped name is reported at once.
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

// anySelected reports whether -run selects a test, or -bench a benchmark. The testing package does not say which
// tests there are, but lists them when the test binary is run with -test.list.
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
	return err != nil || len(names) > 0 // go test explains an invalid pattern
}

// ProgramEnv has the program end at once, not a second later as those of the race
// detector do, and look names up in the same way everywhere. It is for those that
// do not pass on their own environment.
func ProgramEnv() []string { return []string{"GORACE=atexit_sleep_ms=0", "GODEBUG=netdns=go"} }

// build makes the program at the root of the module, two levels up from a test's
// directory: under the race detector if the test is, or else without C, as it is published.
func build(version string) (dir string, err error) {
	const root = "../.."
	if err := lookAtSources(root); err != nil {
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

// UnderRace reports whether this test runs under the race detector, with which all that
// the test itself computes takes ten times as long.
func UnderRace() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// lookAtSources looks at all that the program is made of, so that go test knows
// when a cached result is stale: it does not see what go build reads.
func lookAtSources(root string) error {
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
