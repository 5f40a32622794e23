package main

import (
	"debug/buildinfo"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
)

// file is one of an archive or package.
type file struct {
	name  string
	mode  fs.FileMode
	owner int // user and group; root unless it is said
	data  []byte
}

// program is zksh, built for a target.
type program struct {
	target
	file file
	info *debug.BuildInfo
	with []file // that go with it
}

// settings are those for Go: everything that could change what is built is fixed.
func (t target) settings() []string {
	return []string{
		"CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOENV=off", "GOWORK=off", "GOTOOLCHAIN=local", "GODEBUG=", "GOFIPS140=off",
	}
}

// build builds zksh for a target, and adds to shared what goes with that alone.
func (w workshop) build(t target, shared []file) (program, error) {
	p := program{target: t, file: file{name: "zksh", mode: 0o755}}
	if t.os == "windows" {
		p.file.name += ".exe"
	}
	path, err := w.compile(t)
	if err != nil {
		return p, err
	}
	if p.file.data, err = os.ReadFile(path); err != nil {
		return p, err
	}
	if p.info, err = buildinfo.ReadFile(path); err != nil {
		return p, err
	}
	text, err := w.notices(p)
	p.with = append(slices.Clone(shared), file{name: notices, mode: 0o644, data: text})
	return p, err
}

// compile returns the path of the program.
func (w workshop) compile(t target) (path string, err error) {
	dir := filepath.Join(w.stage, t.os+"-"+t.arch)
	if path, err = filepath.Abs(filepath.Join(dir, "zksh")); err != nil {
		return "", err
	}
	if _, err = os.Stat(path); err == nil {
		return path, nil // it has written its pages already
	}
	if err = os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	_, err = run(w.root, t.settings(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X main.version="+w.version.text, "-o", path, ".")
	return path, err
}

// shared are the files that are the same for every target. What the program writes of
// itself comes from one that runs here.
func (w workshop) shared() ([]file, error) {
	var all []file
	for _, name := range []string{licence, about, changes} {
		data, err := os.ReadFile(filepath.Join(w.root, name))
		if err != nil {
			return nil, err
		}
		all = append(all, file{name: name, mode: 0o644, data: data})
	}
	native, err := w.compile(target{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		data, err := run(w.stage, nil, native, page.args...)
		if err != nil {
			return nil, err
		}
		all = append(all, file{name: page.name, mode: 0o644, data: data})
	}
	return all, nil
}

// What goes with a program, by its names in an archive.
const (
	licence = "LICENSE"
	about   = "README.md"
	changes = "CHANGELOG.md"
	notices = "THIRD-PARTY-LICENSES"
	manual  = "zksh.1"
	bash    = "completions/zksh.bash"
	zsh     = "completions/_zksh"
	fish    = "completions/zksh.fish"
)

// pages are what the program writes of itself.
var pages = []struct {
	name string
	args []string
}{
	{manual, []string{"man"}},
	{bash, []string{"completion", "bash"}},
	{zsh, []string{"completion", "zsh"}},
	{fish, []string{"completion", "fish"}},
}
