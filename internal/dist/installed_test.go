//go:build unix

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestArchive(t *testing.T) {
	data, err := os.ReadFile(only(t, here+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	top := unpack(t, gunzip(t, data), root)
	got := contents(t, filepath.Join(root, top))
	for _, name := range []string{licence, readme, changelog, notices, manual, bash, zsh, fish} {
		if len(got[name]) == 0 {
			t.Errorf("%s is missing", name)
		}
		delete(got, name)
	}
	if size := len(got["zksh"]); runtime.GOARCH == "amd64" && size > 15_000_000 {
		t.Errorf("zksh has %d bytes; go tool nm -size -sort size lists its largest parts", size)
	}
	delete(got, "zksh")
	for name := range got {
		t.Errorf("there is %s, too", name)
	}
	wantVersion(t, inRoot(t, root, 0, "/"+top+"/zksh"))
}

func TestZip(t *testing.T) {
	data, err := zipped([]file{{name: "a/zksh.exe", mode: 0o755, data: []byte("MZ")}, {name: "a/LICENSE", mode: 0o644}}, testOptions("").time)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "x.zip")
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := run("", nil, "python3", "-m", "zipfile", "-l", name)
	if err != nil || !regexp.MustCompile(`(?s)a/LICENSE +2026-11-22 08:30:00 .*a/zksh.exe +2026-11-22 08:30:00 +2\n`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

// The package for Debian can be installed into an empty root directory, works there, and
// leaves nothing when it is removed.
func TestDeb(t *testing.T) {
	need(t, "dpkg")
	root := t.TempDir()
	state := filepath.Join(root, "var/lib/dpkg")
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(state, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(state, "status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg := func(args ...string) {
		t.Helper()
		asRoot(t)
		if out, err := run("", nil, "dpkg", append([]string{"--root=" + root, "--log=" + os.DevNull}, args...)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	dpkg("--install", only(t, here+".deb"))
	checkInstalled(t, root, "/usr/share/zsh/vendor-completions/_zksh")
	dpkg("--purge", "zksh")
	checkRemoved(t, root)
}

// The package can be installed on the machine itself. This test runs only in CI, whose
// machines are temporary.
func TestDebOnThisMachine(t *testing.T) {
	if os.Getenv("CI") == "" {
		t.Skip("a package is installed on the machine itself in CI only")
	}
	need(t, "dpkg")
	asRoot(t)
	const program = "/usr/bin/zksh"
	if _, err := os.Lstat(program); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is there already: %v", program, err)
	}
	dpkg := func(args ...string) string {
		t.Helper()
		out, err := run("", nil, "dpkg", args...)
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return string(out)
	}
	t.Cleanup(func() {
		dpkg("--purge", "zksh")
		if _, err := os.Lstat(program); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", program, err)
		}
	})
	dpkg("--install", only(t, here+".deb"))
	if changed := dpkg("--verify", "zksh"); changed != "" {
		t.Errorf("not as it was packed:\n%s", changed)
	}
	wantVersion(t, exec.CommandContext(t.Context(), program))
}

func TestRPM(t *testing.T) {
	need(t, "rpm")
	root := t.TempDir()
	rpm := func(args ...string) {
		t.Helper()
		asRoot(t)
		if out, err := run("", nil, "rpm", append([]string{"--root", root, "--dbpath", "/var/lib/rpm", "--nosignature", "--noplugins"}, args...)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	rpm("--initdb")
	rpm("--install", only(t, here+".rpm"))
	rpm("--verify", "zksh")
	checkInstalled(t, root, "/usr/share/zsh/site-functions/_zksh")
	rpm("--erase", "zksh")
	checkRemoved(t, root)
}

// The package for Alpine consists of two archives, one after the other. The first contains
// the checksum of the second.
func TestAPK(t *testing.T) {
	data, err := os.ReadFile(only(t, here+".apk"))
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(data) // an io.ByteReader, so gzip does not read beyond the first archive
	var parts [2]string
	var second int
	for i := range parts {
		second = len(data) - r.Len()
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		z.Multistream(false)
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		parts[i] = t.TempDir()
		unpack(t, text, parts[i])
	}
	if r.Len() != 0 {
		t.Errorf("%d bytes behind the end", r.Len())
	}
	about := string(contents(t, parts[0])[".PKGINFO"])
	for _, line := range []string{
		"pkgname = zksh", "pkgver = 9.8.7_git20261122083000-r0", "license = Apache-2.0",
		fmt.Sprintf("datahash = %x", sha256.Sum256(data[second:])),
	} {
		if !strings.Contains("\n"+about, "\n"+line+"\n") {
			t.Errorf("%q is missing in\n%s", line, about)
		}
	}
	checkInstalled(t, parts[1], "/usr/share/zsh/site-functions/_zksh")
}

// checkInstalled checks the files of an installed package and runs the program.
func checkInstalled(t *testing.T, root, zshCompletion string) {
	t.Helper()
	names := []string{
		"/usr/bin/zksh", docs + "/" + readme, docs + "/" + changelog, docs + "/" + notices, zshCompletion, "/usr/share/man/man1/zksh.1.gz",
		"/usr/share/bash-completion/completions/zksh", "/usr/share/fish/vendor_completions.d/zksh.fish",
	}
	for _, name := range names {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if want := map[bool]fs.FileMode{true: 0o755, false: 0o644}[name == "/usr/bin/zksh"]; info.Mode() != want || info.Size() == 0 {
			t.Errorf("%s: %v, %d bytes", name, info.Mode(), info.Size())
		}
	}
	wantVersion(t, inRoot(t, root, 0, "/usr/bin/zksh"))
	sandbox := inRoot(t, root, 0, "/usr/bin/zksh", "--sandbox")
	sandbox.Stdin = strings.NewReader("create /a 1\nget /a\n")
	if out, err := sandbox.CombinedOutput(); err != nil || string(out) != "Created /a\n1\n" {
		t.Errorf("the sandbox: %v\n%s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(root, userHome)); err != nil { // created by the sandbox
		t.Error(err)
	}
}

// checkRemoved checks that a removed package has left no files.
func checkRemoved(t *testing.T, root string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, _ fs.DirEntry, err error) error {
		if strings.Contains(name, "zksh") && !strings.HasPrefix(name, "var/lib/") {
			t.Errorf("%s is left", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantVersion runs cmd with --version and checks its output.
func wantVersion(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Args = append(cmd.Args, "--version")
	out, err := cmd.CombinedOutput()
	if want := "zksh " + testVersion + "\n"; err != nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}

// userHome is the home directory of the user in a root directory.
const userHome = "/home/user"

// inRoot returns a command that runs a program as a user, with root as its root directory.
func inRoot(t *testing.T, root string, user uint32, program string, args ...string) *exec.Cmd {
	t.Helper()
	asRoot(t)
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin", "HOME=" + userHome}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
	return cmd
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "only root can change the root")
	}
}

func gunzip(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unpack unpacks a tar file with owners and modes, and returns the first name in it. It fails
// the test if a member has another time than the distribution or an unexpected owner.
func unpack(t *testing.T, data []byte, root string) (first string) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return first
		}
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = strings.TrimSuffix(h.Name, "/")
		}
		if at := h.ModTime; at.Unix() != 0 && !at.Equal(testOptions("").time) || h.Uid != h.Gid || h.Uid != 0 && h.Uid != nobody {
			t.Errorf("%s: %v, %d:%d", h.Name, at, h.Uid, h.Gid)
		}
		name := filepath.Join(root, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.Mkdir(name, 0o755)
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, text, 0o644)
			}
		}
		if err == nil && os.Geteuid() == 0 {
			err = os.Chown(name, h.Uid, h.Gid)
		}
		if err == nil {
			err = os.Chmod(name, h.FileInfo().Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
