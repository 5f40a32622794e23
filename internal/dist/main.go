// Dist builds the files of a release: archives, packages for Debian, Red Hat and Alpine, a
// container image, bills of materials (SBOM), checksums, and the signature of the checksums. It
// is a separate module, so that zksh itself does not depend on the libraries that write packages.
//
// Builds are reproducible: the same commit and the same version of Go result in the same bytes
// on every machine. All timestamps are the time of the commit, files are sorted and belong to
// root, and Dist ignores settings of Go in the environment.
//
// Begin with options.make and builder.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	o := options{log: os.Stdout}
	flag.StringVar(&o.root, "root", "../..", "zksh's `folder`")
	flag.StringVar(&o.out, "out", "../../dist", "the `folder` to make, whose former content goes")
	flag.StringVar(&o.version, "version", "", "the `version`, as git describe tells it")
	only := flag.String("only", "", "make it for these `systems` alone, such as linux/amd64,windows/arm64")
	flag.Parse()
	err := o.fromEnvironment(os.Getenv)
	if err == nil {
		o.targets, err = choose(*only)
	}
	if err == nil {
		err = o.make()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// An options value configures a distribution, that is, all files of a release.
type options struct {
	// Directory of zksh's sources, and directory for the distribution.
	root, out string
	version   string    // version of zksh in the format of git describe
	time      time.Time // modification time of all files in the distribution
	targets   []target
	// keyFile is the path of the secret key for minisign. If it is empty, nothing is signed.
	keyFile  string
	password string // password of the secret key
	log      io.Writer
}

// A target is an operating system and an architecture for which zksh is built.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// targets lists all targets of a release.
var targets = []target{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// choose returns the targets with the given names, which are separated by commas. If names is
// empty, it returns all targets.
func choose(names string) ([]target, error) {
	if names == "" {
		return targets, nil
	}
	var chosen []target
	for name := range strings.SplitSeq(names, ",") {
		goos, arch, _ := strings.Cut(name, "/")
		t := target{goos, arch}
		known := false
		for _, have := range targets {
			known = known || have == t
		}
		if !known {
			return nil, fmt.Errorf("unknown operating system %q: must be one of %v", name, targets)
		}
		chosen = append(chosen, t)
	}
	return chosen, nil
}

// fromEnvironment sets the key file, the password and the time from environment variables. The
// password is not an option, because other users can see the command line of a process.
//
// The time is the value of SOURCE_DATE_EPOCH or, by default, the time of the last commit. If the
// source tree has no git repository, the variable is required.
func (o *options) fromEnvironment(getenv func(string) string) error {
	seconds := getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		out, err := run(o.root, nil, "git", "log", "-1", "--format=%ct")
		if err != nil {
			return fmt.Errorf("cannot read the time of the last commit, and SOURCE_DATE_EPOCH is not set: %w", err)
		}
		seconds = strings.TrimSpace(string(out))
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("invalid SOURCE_DATE_EPOCH %q: want the number of seconds since 1970", seconds)
	}
	o.time = time.Unix(n, 0).UTC()
	o.keyFile = getenv("MINISIGN_KEY_FILE")
	if file := getenv("MINISIGN_PASSWORD_FILE"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("MINISIGN_PASSWORD_FILE: %w", err)
		}
		o.password, _, _ = strings.Cut(string(text), "\n")
	}
	return nil
}

// make builds the distribution in a temporary directory. Once the distribution is complete, this
// directory replaces o.out.
func (o options) make() (err error) {
	v, err := parseVersion(o.version, o.time)
	if err != nil {
		return err
	}
	if err := v.checkNotes(filepath.Join(o.root, "CHANGELOG.md")); err != nil {
		return err
	}
	// Read the key before the build, so that a wrong password is reported at once.
	key, err := o.key()
	if err != nil {
		return err
	}
	// Create the temporary directory next to o.out, because Rename cannot move it to another file
	// system.
	work, err := os.MkdirTemp(filepath.Dir(filepath.Clean(o.out)), ".dist-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	made := filepath.Join(work, "made")
	if err := os.Mkdir(made, 0o755); err != nil {
		return err
	}
	w := builder{options: o, version: v, staging: filepath.Join(work, "stage"), outDir: made}
	if err := w.makeAll(); err != nil {
		return err
	}
	if err := w.checksums(key); err != nil {
		return err
	}
	if err := o.clear(); err != nil {
		return err
	}
	return os.Rename(made, o.out)
}

// clear removes the output directory if it is empty or contains an earlier distribution. If it
// contains anything else, clear returns an error.
func (o options) clear() error {
	entries, err := os.ReadDir(o.out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	made := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == sumsFile })
	if len(entries) > 0 && !made {
		return fmt.Errorf("%s contains no %s, so it is not the output of an earlier run; remove it, or choose another folder", o.out, sumsFile)
	}
	return os.RemoveAll(o.out)
}

// A builder builds the files of one distribution.
type builder struct {
	options
	version version
	staging string // directory for intermediate files
	outDir  string // directory for the finished files of the distribution
}

func (w builder) makeAll() error {
	shared, err := w.shared()
	if err != nil {
		return err
	}
	var programs []program
	for _, t := range w.targets {
		fmt.Fprintln(w.log, "building", t)
		p, err := w.build(t, shared)
		if err != nil {
			return err
		}
		for _, step := range []func(program) error{w.archive, w.sbom, w.packages} {
			if err := step(p); err != nil {
				return fmt.Errorf("%s: %w", t, err)
			}
		}
		programs = append(programs, p)
	}
	return w.image(programs)
}

// write writes a file with the given name to the distribution.
func (w builder) write(name string, data []byte) error {
	fmt.Fprintf(w.log, "%10d  %s\n", len(data), name)
	return os.WriteFile(filepath.Join(w.outDir, name), data, 0o644)
}

// run runs a program in the directory dir, and returns the program's standard output.
func run(dir string, env []string, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var failure strings.Builder
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, failure.String())
	}
	return out, nil
}
