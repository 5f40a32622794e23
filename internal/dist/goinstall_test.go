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

// treeFile is a file of the tree, as package zip wants one.
type treeFile string

func (f treeFile) Path() string                 { return string(f) }
func (f treeFile) Lstat() (fs.FileInfo, error)  { return os.Lstat(filepath.Join("../..", string(f))) }
func (f treeFile) Open() (io.ReadCloser, error) { return os.Open(filepath.Join("../..", string(f))) }

// go install takes a version from a proxy, here a folder, and the program knows it.
func TestGoInstall(t *testing.T) {
	const path, version = "github.com/zksh/zksh", "v0.98.7"
	proxy, work := t.TempDir(), t.TempDir()
	dir := filepath.Join(proxy, path, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var files []modzip.File
	for _, name := range tracked(t) {
		if _, err := os.Lstat(filepath.Join("../..", name)); err == nil { // or it was just removed
			files = append(files, treeFile(name))
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
	// What zksh needs is in the cache already; what is made here must not get there.
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
