package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/apk"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// Description of zksh in packages: its first line (summary) and the remaining text (description).
const (
	summary     = "ZooKeeper shell with locks, scripts and completion"
	description = "zksh takes the commands of zkCli.sh and prints the same text, interactively and in\n" +
		"scripts, without Java. Commands can run under locks that they share with\n" +
		"Curator, kazoo and go-zookeeper; an in-memory server is there to try it with."
	home = "https://github.com/zksh/zksh"
)

// Directories that the packages own. They are removed together with a package.
const (
	docs     = "/usr/share/doc/zksh"
	licences = "/usr/share/licenses/zksh"
)

// A packageFormat is the package format of a Linux distribution.
type packageFormat struct {
	extension string
	packager  nfpm.Packager
	zsh       string // path at which the package installs the completion script for zsh
	licence   string // path at which the package installs the licence
}

var packageFormats = []packageFormat{
	{".deb", deb.Default, "/usr/share/zsh/vendor-completions/_zksh", docs + "/copyright"},
	{".rpm", rpm.DefaultRPM, "/usr/share/zsh/site-functions/_zksh", licences + "/LICENSE"},
	{".apk", apk.Default, "/usr/share/zsh/site-functions/_zksh", licences + "/LICENSE"},
}

// packages writes a package in each format that contains the program p. It writes nothing if p is
// not a Linux program.
func (w builder) packages(p program) error {
	if p.os != "linux" {
		return nil
	}
	for _, k := range packageFormats {
		info, err := w.describe(k, p)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := k.packager.Package(info, &b); err != nil {
			return fmt.Errorf("%s: %w", k.extension, err)
		}
		if err := w.write(w.name(p.target)+k.extension, b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// describe returns the metadata and the contents of a package in the format k.
func (w builder) describe(k packageFormat, p program) (*nfpm.Info, error) {
	info := &nfpm.Info{
		Name: "zksh", Platform: "linux", Arch: p.arch, MTime: w.time, DisableGlobbing: true,
		Version: w.version.base, Prerelease: w.version.pre, VersionMetadata: w.version.suffix, Release: "1",
		Section: "utils", Priority: "optional", License: "Apache-2.0", Homepage: home,
		Maintainer: "The zksh developers <zksh@users.noreply.github.com>", Description: summary + "\n" + description,
	}
	// To make builds reproducible, do not use the default, which is the name of this machine.
	info.RPM.BuildHost = "zksh"
	info.RPM.Summary = summary
	switch k.extension {
	case ".deb":
		// Debian's packages have no field for the licence. The licence is in the file "copyright".
		info.License = ""
	case ".apk":
		info.Version, info.Prerelease, info.VersionMetadata, info.Release = w.version.alpine(), "", "", "0"
	}
	placed, err := k.place(p)
	if err != nil {
		return nil, err
	}
	for i, f := range placed {
		content := &files.Content{
			Destination: f.name,
			FileInfo:    &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode.Perm(), MTime: w.time},
		}
		info.Contents = append(info.Contents, content)
		if f.mode.IsDir() {
			content.Type = files.TypeDir
			continue
		}
		content.Source = filepath.Join(w.staging, p.os+"-"+p.arch, k.extension+strconv.Itoa(i))
		if err := os.WriteFile(content.Source, f.data, 0o644); err != nil {
			return nil, err
		}
	}
	return info, nil
}

// place returns the files and directories of a package, each with its path on the target system.
func (k packageFormat) place(p program) ([]file, error) {
	where := map[string]string{
		licence:   k.licence,
		notices:   docs + "/" + notices,
		readme:    docs + "/" + readme,
		changelog: docs + "/" + changelog,
		manual:    "/usr/share/man/man1/zksh.1.gz",
		bash:      "/usr/share/bash-completion/completions/zksh",
		zsh:       k.zsh,
		fish:      "/usr/share/fish/vendor_completions.d/zksh.fish",
	}
	placed := []file{{name: "/usr/bin/zksh", mode: 0o755, data: p.file.data}}
	for _, f := range p.extras {
		f.name = where[f.name]
		if filepath.Ext(f.name) == ".gz" {
			data, err := compressed(f.data)
			if err != nil {
				return nil, err
			}
			f.data = data
		}
		placed = append(placed, f)
	}
	for _, dir := range []string{docs, path.Dir(k.licence)} {
		if !slices.ContainsFunc(placed, func(f file) bool { return f.name == dir }) {
			placed = append(placed, file{name: dir, mode: fs.ModeDir | 0o755})
		}
	}
	return placed, nil
}
