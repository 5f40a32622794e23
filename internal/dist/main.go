// Dist makes what is published of a version: archives, packages for Debian, Red Hat and
// Alpine, an image for containers, what they are made of (SBOM), checksums, and their
// signature. It is a module of its own, so that zksh itself depends on none of what
// writes packages.
//
// Of one commit it makes the same bytes on every machine that has the same Go: times are
// those of the commit, owners are root, orders are fixed, and the environment's settings
// for Go are not looked at.
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

// options are what a distribution is made by.
type options struct {
	root, out string
	version   string
	time      time.Time // of everything
	targets   []target
	keyFile   string // minisign's secret key; without one nothing is signed
	password  string // of the key
	log       io.Writer
}

// target is a system that zksh is built for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// targets are all of them.
var targets = []target{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// choose returns the targets that are named, or all.
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
			return nil, fmt.Errorf("unknown system %q: must be one of %v", name, targets)
		}
		chosen = append(chosen, t)
	}
	return chosen, nil
}

// fromEnvironment takes what no command line should have, and the time. The time of the
// last commit is what reproduces a distribution; SOURCE_DATE_EPOCH is for trees without git.
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

// make fills a new folder and puts it in the place of the old one when all is done.
func (o options) make() (err error) {
	v, err := parseVersion(o.version, o.time)
	if err != nil {
		return err
	}
	if err := v.checkNotes(filepath.Join(o.root, "CHANGELOG.md")); err != nil {
		return err
	}
	key, err := o.key() // a wrong password shows before minutes of building
	if err != nil {
		return err
	}
	// Beside the folder, so that it can take its place.
	work, err := os.MkdirTemp(filepath.Dir(filepath.Clean(o.out)), ".dist-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	made := filepath.Join(work, "made")
	if err := os.Mkdir(made, 0o755); err != nil {
		return err
	}
	w := workshop{options: o, version: v, stage: filepath.Join(work, "stage"), made: made}
	if err := w.makeAll(); err != nil {
		return err
	}
	if err := w.sum(key); err != nil {
		return err
	}
	if err := o.clear(); err != nil {
		return err
	}
	return os.Rename(made, o.out)
}

// clear removes what an earlier run has made, and nothing else.
func (o options) clear() error {
	entries, err := os.ReadDir(o.out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	made := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == sums })
	if len(entries) > 0 && !made {
		return fmt.Errorf("%s contains no %s, so it is not the output of an earlier run; remove it, or choose another folder", o.out, sums)
	}
	return os.RemoveAll(o.out)
}

// workshop makes the files of a distribution.
type workshop struct {
	options
	version version
	stage   string // for files on their way into packages
	made    string // for what is published
}

func (w workshop) makeAll() error {
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
		for _, step := range []func(program) error{w.archive, w.bill, w.packages} {
			if err := step(p); err != nil {
				return fmt.Errorf("%s: %w", t, err)
			}
		}
		programs = append(programs, p)
	}
	return w.image(programs)
}

// write adds a file to what is published.
func (w workshop) write(name string, data []byte) error {
	fmt.Fprintf(w.log, "%10d  %s\n", len(data), name)
	return os.WriteFile(filepath.Join(w.made, name), data, 0o644)
}

// run runs a program in dir and returns its output.
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
