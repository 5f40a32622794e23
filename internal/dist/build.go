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

// A file is a member of an archive or package.
type file struct {
	name  string
	mode  fs.FileMode
	owner int // user and group id; 0 is root
	data  []byte
}

// A program is zksh, built for a target.
type program struct {
	target
	file   file
	info   *debug.BuildInfo
	extras []file // files to distribute together with the program
}

// settings returns environment variables for the go command. They fix every setting that
// could change the result of a build.
func (t target) settings() []string {
	return []string{
		"CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOENV=off", "GOWORK=off", "GOTOOLCHAIN=local", "GODEBUG=", "GOFIPS140=off",
	}
}

// build builds zksh for a target. The program's extras are the shared files and the licences
// of its dependencies, which depend on the target.
func (w builder) build(t target, shared []file) (program, error) {
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
	p.extras = append(slices.Clone(shared), file{name: notices, mode: 0o644, data: text})
	return p, err
}

// compile compiles zksh for a target, unless it has already done so, and returns the path
// of the program.
func (w builder) compile(t target) (path string, err error) {
	dir := filepath.Join(w.staging, t.os+"-"+t.arch)
	if path, err = filepath.Abs(filepath.Join(dir, "zksh")); err != nil {
		return "", err
	}
	if _, err = os.Stat(path); err == nil {
		return path, nil // compiled by shared, which runs the program
	}
	if err = os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	_, err = run(w.root, t.settings(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X main.version="+w.version.text, "-o", path, ".")
	return path, err
}

// shared returns the files that are the same for every target. For the generated ones, it
// runs a program that is built for this machine.
func (w builder) shared() ([]file, error) {
	var all []file
	for _, name := range []string{licence, readme, changelog} {
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
		data, err := run(w.staging, nil, native, page.args...)
		if err != nil {
			return nil, err
		}
		all = append(all, file{name: page.name, mode: 0o644, data: data})
	}
	return all, nil
}

// Names of the extras in an archive.
const (
	licence   = "LICENSE"
	readme    = "README.md"
	changelog = "CHANGELOG.md"
	notices   = "THIRD-PARTY-LICENSES"
	manual    = "zksh.1"
	bash      = "completions/zksh.bash"
	zsh       = "completions/_zksh"
	fish      = "completions/zksh.fish"
)

// pages lists the files that the program generates, with its arguments for each.
var pages = []struct {
	name string
	args []string
}{
	{manual, []string{"man"}},
	{bash, []string{"completion", "bash"}},
	{zsh, []string{"completion", "zsh"}},
	{fish, []string{"completion", "fish"}},
}
