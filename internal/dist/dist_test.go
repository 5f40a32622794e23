//go:build unix

package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"aead.dev/minisign"
)

var all = flag.Bool("all", false, "make everything, for every system, from two copies of the tree, the second compiled anew; minutes")

// testVersion is the version of an untagged commit, which has the most parts.
const (
	testVersion = "v9.8.7-3-g1a2b3c4"
	testNumber  = "9.8.7+20261122083000.g1a2b3c4"
)

var (
	madeDir   string // directory with the distribution that the tests check
	publicKey minisign.PublicKey
)

// TestMain builds a signed distribution for Linux on this machine's architecture, which all
// tests check. With -all it is for all targets.
func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "dist-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		madeDir = filepath.Join(dir, "made")
		if err := makeSigned(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

func makeSigned(dir string) error {
	public, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		return err
	}
	publicKey = public
	text, err := secret.MarshalText()
	if err != nil {
		return err
	}
	o := testOptions(madeDir)
	o.keyFile = filepath.Join(dir, "key")
	if err := os.WriteFile(o.keyFile, text, 0o600); err != nil {
		return err
	}
	return o.make()
}

func testOptions(out string) options {
	o := options{
		root: "../..", out: out, version: testVersion, time: time.Date(2026, 11, 22, 8, 30, 0, 0, time.UTC),
		targets: []target{{"linux", runtime.GOARCH}}, log: &bytes.Buffer{},
	}
	if *all {
		o.targets = targets
	}
	return o
}

// Builds are reproducible: a second one results in the same bytes, despite another time
// zone, umask and settings for Go. With -all, it also uses a copy of the tree and an empty
// build cache.
func TestReproducible(t *testing.T) {
	t.Setenv("TZ", "Asia/Kathmandu")
	t.Setenv("GOFLAGS", "-race")
	t.Setenv("CGO_ENABLED", "1")
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	o := testOptions(filepath.Join(t.TempDir(), "again"))
	o.keyFile = filepath.Join(filepath.Dir(madeDir), "key")
	if *all {
		o.root = t.TempDir()
		for _, name := range tracked(t) {
			copyFile(t, filepath.Join("../..", name), filepath.Join(o.root, name))
		}
		t.Setenv("GOCACHE", t.TempDir())
	}
	if err := o.make(); err != nil {
		t.Fatal(err)
	}
	want, got := contents(t, madeDir), contents(t, o.out)
	if len(want) < 8 {
		t.Errorf("only %d files", len(want))
	}
	for name := range got {
		if !bytes.Equal(want[name], got[name]) {
			t.Errorf("%s differs", name)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
}

// sha256sum and minisign accept the checksums and their signature, and the checksums cover
// all other files.
func TestChecksums(t *testing.T) {
	out, err := run(madeDir, nil, "sha256sum", "--check", "--strict", sumsFile)
	if err != nil {
		t.Fatal(err)
	}
	files := contents(t, madeDir)
	if n := strings.Count(string(out), ": OK\n"); n != len(files)-2 {
		t.Errorf("%d of %d files checked:\n%s", n, len(files), out)
	}
	need(t, "minisign")
	verify := func(dir string) error {
		_, err := run(dir, nil, "minisign", "-V", "-H", "-P", publicKey.String(), "-m", sumsFile)
		return err
	}
	if err := verify(madeDir); err != nil {
		t.Error(err)
	}
	forged := t.TempDir()
	for _, name := range []string{sumsFile, signatureFile} {
		data := files[name]
		if name == sumsFile {
			data = append(bytes.Clone(data), ' ')
		}
		if err := os.WriteFile(filepath.Join(forged, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if verify(forged) == nil {
		t.Error("the signature holds for another text")
	}
}

// Without a key, dist prints that nothing is signed. A missing key file is an error before
// anything is built.
func TestKey(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	o := testOptions(out)
	o.keyFile = filepath.Join(t.TempDir(), "none")
	if err := o.make(); err == nil || !strings.Contains(err.Error(), "MINISIGN_KEY_FILE") {
		t.Error(err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("something was made")
	}
	var log bytes.Buffer
	w := builder{options: options{log: &log}, outDir: t.TempDir()}
	if err := w.checksums(nil); err != nil || !strings.Contains(log.String(), "NOTHING IS SIGNED") {
		t.Error(err, log.String())
	}
	if _, err := os.Stat(filepath.Join(w.outDir, signatureFile)); err == nil {
		t.Error("there is a signature")
	}
}

// The files named in the installation page exist, and the page names a file of each kind.
func TestInstallPage(t *testing.T) {
	text, err := os.ReadFile("../../shell/manual/install.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, name := range regexp.MustCompile(`zksh_0\.1\.0_[a-z0-9_.]+[a-z]`).FindAllString(string(text), -1) {
		name = strings.TrimPrefix(name, "zksh_0.1.0")
		named[name[strings.Index(name, "."):]] = true
		if *all || strings.HasPrefix(name, here) || strings.HasPrefix(name, "_image") {
			if _, err := os.Stat(filepath.Join(madeDir, "zksh_"+testNumber+name)); err != nil {
				t.Error(err)
			}
		}
	}
	for name := range contents(t, madeDir) {
		name = strings.TrimPrefix(name, "zksh_"+testNumber)
		if at := strings.Index(name, "."); strings.HasPrefix(name, "_") && !named[name[at:]] {
			t.Errorf("install.md names nothing that ends with %s", name[at:])
		}
	}
}

// clear does not remove a directory that is not the output of an earlier run.
func TestClear(t *testing.T) {
	o := options{out: t.TempDir()}
	precious := filepath.Join(o.out, "precious")
	if err := os.WriteFile(precious, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := o.clear(); err == nil || !strings.Contains(err.Error(), "choose another folder") {
		t.Error(err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

// contents returns the contents of all files below dir, by path.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[name], err = os.ReadFile(filepath.Join(dir, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// only returns the path of the only file of the distribution whose name has this ending.
func only(t *testing.T, ending string) string {
	t.Helper()
	matches, err := filepath.Glob(filepath.Join(madeDir, "*"+ending))
	if err != nil || len(matches) != 1 {
		t.Fatal(matches, err)
	}
	return matches[0]
}

// here is the end of the name of files for this machine, without the extension.
var here = "_linux_" + runtime.GOARCH

// need skips a test if a program is missing. If the environment variable CI is set, the
// test fails instead.
func need(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		missing(t, err.Error()+" (make deps installs it)")
	}
}

func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// tracked returns the source files of zksh, tracked by git or not yet committed. If the tree
// is not a git repository, it returns all files except hidden ones and build output.
func tracked(t *testing.T) (names []string) {
	t.Helper()
	out, err := run("../..", nil, "git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard")
	if err == nil {
		return strings.Fields(string(out))
	}
	tree := os.DirFS("../..")
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(d.Name(), "."), name == "bin", name == "dist":
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir():
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
