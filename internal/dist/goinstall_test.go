//go:build unix

package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// A sourceFile is a file of zksh's source tree. It implements modzip.File.
type sourceFile string

func (f sourceFile) Path() string                 { return string(f) }
func (f sourceFile) Lstat() (fs.FileInfo, error)  { return os.Lstat(filepath.Join("../..", string(f))) }
func (f sourceFile) Open() (io.ReadCloser, error) { return os.Open(filepath.Join("../..", string(f))) }

// A program that go install builds from a module proxy prints its version. The proxy is a
// directory here.
func TestGoInstall(t *testing.T) {
	const path, version = "github.com/zksh/zksh", "v0.98.7"
	proxy, work := t.TempDir(), t.TempDir()
	dir := filepath.Join(proxy, path, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var files []modzip.File
	for _, name := range tracked(t) {
		if _, err := os.Lstat(filepath.Join("../..", name)); err == nil { // skip files that were removed and not committed
			files = append(files, sourceFile(name))
		}
	}
	out, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := modzip.Create(out, module.Version{Path: path, Version: version}, files); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "list"), []byte(version+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	copyFile(t, "../../go.mod", filepath.Join(dir, version+".mod"))
	if err := os.WriteFile(filepath.Join(dir, version+".info"), []byte(`{"Version":"`+version+`"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	cache, err := run("../..", nil, "go", "env", "GOMODCACHE")
	if err != nil {
		t.Fatal(err)
	}
	// The dependencies come from the module cache, but this version must not get into it.
	downloads := filepath.Join(strings.TrimSpace(string(cache)), "cache", "download")
	env := []string{
		"GOPROXY=file://" + proxy + ",file://" + downloads, "GOSUMDB=off", "GOMODCACHE=" + filepath.Join(work, "mod"),
		"GOBIN=" + filepath.Join(work, "bin"), "GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0",
	}
	if _, err := run(work, env, "go", "install", path+"@"+version); err != nil {
		t.Fatal(err)
	}
	told, err := run(work, nil, filepath.Join(work, "bin", "zksh"), "--version")
	if want := "zksh " + version + "\n"; err != nil || string(told) != want {
		t.Errorf("%v, %q, want %q", err, told, want)
	}
}
