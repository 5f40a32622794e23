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

// A file is a file or directory in an archive or package.
type file struct {
	name  string
	mode  fs.FileMode
	owner int // user and group id; 0 is root
	data  []byte
}

// A program is the executable of zksh for one target, with the files that belong to it.
type program struct {
	target
	file   file // the executable file
	info   *debug.BuildInfo
	extras []file // other files to distribute together with the executable
}

// settings returns environment variables for the go command. They override every setting of this
// machine that could change the result of a build.
func (t target) settings() []string {
	return []string{
		"CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOENV=off", "GOWORK=off", "GOTOOLCHAIN=local", "GODEBUG=", "GOFIPS140=off",
	}
}

// build builds zksh for a target. The extras of the program are the shared files and a file with
// the licences of its dependencies, which depend on the target.
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

// compile compiles zksh for a target, unless it has already done so, and returns the path of the
// executable.
func (w builder) compile(t target) (path string, err error) {
	dir := filepath.Join(w.staging, t.os+"-"+t.arch)
	if path, err = filepath.Abs(filepath.Join(dir, "zksh")); err != nil {
		return "", err
	}
	if _, err = os.Stat(path); err == nil {
		return path, nil // shared has already compiled it, to run it on this machine
	}
	if err = os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	_, err = run(w.root, t.settings(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X main.version="+w.version.text, "-o", path, ".")
	return path, err
}

// shared returns the files that are the same for every target. To generate the manual page and
// the completion scripts, it compiles zksh for this machine and runs it.
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

// Names of the files that an archive contains in addition to the executable.
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

// pages lists the files that zksh itself generates, each with the arguments for zksh.
var pages = []struct {
	name string
	args []string
}{
	{manual, []string{"man"}},
	{bash, []string{"completion", "bash"}},
	{zsh, []string{"completion", "zsh"}},
	{fish, []string{"completion", "fish"}},
}
