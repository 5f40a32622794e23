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
	for _, name := range []string{licence, about, changes, notices, manual, bash, zsh, fish} {
		if len(got[name]) == 0 {
			t.Errorf("%s is missing", name)
		}
		delete(got, name)
	}
	delete(got, "zksh")
	for name := range got {
		t.Errorf("there is %s, too", name)
	}
	tellsVersion(t, inRoot(t, root, 0, "/"+top+"/zksh"))
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

// A package is installed into an empty root, works there, and leaves nothing when it is
// removed.
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
	installed(t, root, "/usr/share/zsh/vendor-completions/_zksh")
	dpkg("--purge", "zksh")
	nothingLeft(t, root)
}

// In CI, whose machine is nobody's, the package is installed on the machine itself.
func TestDebHere(t *testing.T) {
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
	tellsVersion(t, exec.CommandContext(t.Context(), program))
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
	installed(t, root, "/usr/share/zsh/site-functions/_zksh")
	rpm("--erase", "zksh")
	nothingLeft(t, root)
}

// An apk is two archives, one behind the other, the first of which has the checksum of
// the second.
func TestAPK(t *testing.T) {
	data, err := os.ReadFile(only(t, here+".apk"))
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(data) // of which gzip takes no more than it needs
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
	installed(t, parts[1], "/usr/share/zsh/site-functions/_zksh")
}

// installed looks for what a package has, and runs the program there.
func installed(t *testing.T, root, zshCompletion string) {
	t.Helper()
	names := []string{
		"/usr/bin/zksh", docs + "/" + about, docs + "/" + changes, docs + "/" + notices, zshCompletion, "/usr/share/man/man1/zksh.1.gz",
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
	tellsVersion(t, inRoot(t, root, 0, "/usr/bin/zksh"))
	sandbox := inRoot(t, root, 0, "/usr/bin/zksh", "--sandbox")
	sandbox.Stdin = strings.NewReader("create /a 1\nget /a\n")
	if out, err := sandbox.CombinedOutput(); err != nil || string(out) != "Created /a\n1\n" {
		t.Errorf("the sandbox: %v\n%s", err, out)
	}
	if err := os.RemoveAll(filepath.Join(root, userHome)); err != nil { // where the sandbox has met
		t.Error(err)
	}
}

// nothingLeft looks for what a removed package has left.
func nothingLeft(t *testing.T, root string) {
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

// tellsVersion runs zksh --version.
func tellsVersion(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Args = append(cmd.Args, "--version")
	out, err := cmd.CombinedOutput()
	if want := "zksh " + testVersion + "\n"; err != nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}

// userHome is the user's in an empty root.
const userHome = "/userHome/user"

// inRoot is a program that sees nothing but root, as a user.
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

// unpack unpacks a tar with its owners and modes, and returns the name that stands first.
// Each member has the time of the distribution, if it has one, and an owner that is meant.
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
