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

// A file is a file or directory to put into an archive or package.
type file struct {
	name  string
	mode  fs.FileMode
	owner int // id of the user and of the group that own the file; 0 is root
	data  []byte
}

// A program is zksh for one target: the executable file, and other files to distribute with it.
type program struct {
	target
	file   file // executable file of zksh
	info   *debug.BuildInfo
	extras []file // other files to distribute with the executable file
}

// settings returns environment variables for the go command, which builds zksh for the target t.
// They override all settings of this machine that could change the result of the build.
func (t target) settings() []string {
	return []string{
		"CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOAMD64=v1", "GOARM64=v8.0",
		"GOFLAGS=", "GOEXPERIMENT=", "GOENV=off", "GOWORK=off", "GOTOOLCHAIN=local", "GODEBUG=", "GOFIPS140=off",
	}
}

// build builds zksh for the target t. The result also contains the shared files, and a file with
// the licences of the libraries that the program contains. These libraries depend on the target.
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

// compile compiles zksh for the target t and returns the path of the executable file. It does
// nothing if it has already compiled zksh for this target.
func (w builder) compile(t target) (path string, err error) {
	dir := filepath.Join(w.staging, t.os+"-"+t.arch)
	if path, err = filepath.Abs(filepath.Join(dir, "zksh")); err != nil {
		return "", err
	}
	if _, err = os.Stat(path); err == nil {
		// The method shared has already compiled the program, to run it on this machine.
		return path, nil
	}
	if err = os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	_, err = run(w.root, t.settings(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X main.version="+w.version.text, "-o", path, ".")
	return path, err
}

// shared returns the files that are the same for all targets. It compiles zksh for this machine,
// and runs it to generate the manual page and the completion scripts.
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

// Names of files in an archive other than the executable file.
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

// pages lists the files that zksh itself generates. For each file, it contains the arguments with
// which to run zksh.
var pages = []struct {
	name string
	args []string
}{
	{manual, []string{"man"}},
	{bash, []string{"completion", "bash"}},
	{zsh, []string{"completion", "zsh"}},
	{fish, []string{"completion", "fish"}},
}
