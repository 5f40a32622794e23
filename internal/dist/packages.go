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

// summary is the first line of what packages say of zksh, and story the rest.
const (
	summary = "ZooKeeper shell with locks, scripts and completion"
	story   = "zksh takes the commands of zkCli.sh and prints the same text, interactively and in\n" +
		"scripts, without Java. Commands can run under locks that they share with\n" +
		"Curator, kazoo and go-zookeeper; an in-memory server is there to try it with."
	home = "https://github.com/zksh/zksh"
)

// The folders that are a package's own, which go with it.
const (
	docs     = "/usr/share/doc/zksh"
	licences = "/usr/share/licenses/zksh"
)

// kind is a form of packages.
type kind struct {
	ending   string
	packager nfpm.Packager
	zsh      string // where its systems have completions for zsh
	licence  string // and a package's licence
}

var kinds = []kind{
	{".deb", deb.Default, "/usr/share/zsh/vendor-completions/_zksh", docs + "/copyright"},
	{".rpm", rpm.DefaultRPM, "/usr/share/zsh/site-functions/_zksh", licences + "/LICENSE"},
	{".apk", apk.Default, "/usr/share/zsh/site-functions/_zksh", licences + "/LICENSE"},
}

// packages makes those for a program, if it is for Linux.
func (w workshop) packages(p program) error {
	if p.os != "linux" {
		return nil
	}
	for _, k := range kinds {
		info, err := w.describe(k, p)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := k.packager.Package(info, &b); err != nil {
			return fmt.Errorf("%s: %w", k.ending, err)
		}
		if err := w.write(w.name(p.target)+k.ending, b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// describe says what is in a package.
func (w workshop) describe(k kind, p program) (*nfpm.Info, error) {
	info := &nfpm.Info{
		Name: "zksh", Platform: "linux", Arch: p.arch, MTime: w.time, DisableGlobbing: true,
		Version: w.version.base, Prerelease: w.version.pre, VersionMetadata: w.version.after, Release: "1",
		Section: "utils", Priority: "optional", License: "Apache-2.0", Homepage: home,
		Maintainer: "The zksh developers <zksh@users.noreply.github.com>", Description: summary + "\n" + story,
	}
	info.RPM.BuildHost = "zksh" // not the machine's
	info.RPM.Summary = summary
	switch k.ending {
	case ".deb":
		info.License = "" // in its copyright; there is no such field
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
		content.Source = filepath.Join(w.stage, p.os+"-"+p.arch, k.ending+strconv.Itoa(i))
		if err := os.WriteFile(content.Source, f.data, 0o644); err != nil {
			return nil, err
		}
	}
	return info, nil
}

// place names where a package of this kind puts each file.
func (k kind) place(p program) ([]file, error) {
	where := map[string]string{
		licence: k.licence,
		notices: docs + "/" + notices,
		about:   docs + "/" + about,
		changes: docs + "/" + changes,
		manual:  "/usr/share/man/man1/zksh.1.gz",
		bash:    "/usr/share/bash-completion/completions/zksh",
		zsh:     k.zsh,
		fish:    "/usr/share/fish/vendor_completions.d/zksh.fish",
	}
	placed := []file{{name: "/usr/bin/zksh", mode: 0o755, data: p.file.data}}
	for _, f := range p.with {
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
