package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// archive writes an archive with the program and its additional files, all in one directory. It
// is a zip file for Windows, and a tar.gz file for other systems.
func (w builder) archive(p program) error {
	top := w.name(p.target)
	var members []file
	for _, f := range append([]file{p.file}, p.extras...) {
		f.name = top + "/" + f.name
		members = append(members, f)
	}
	if p.os == "windows" {
		data, err := zipped(members, w.time)
		if err != nil {
			return err
		}
		return w.write(top+".zip", data)
	}
	data, err := tarred(members, w.time)
	if err == nil {
		data, err = compressed(data)
	}
	if err != nil {
		return err
	}
	return w.write(top+".tar.gz", data)
}

// name returns the name, without extension, of the distribution's files for the target t.
func (w builder) name(t target) string {
	return "zksh_" + w.version.number() + "_" + t.os + "_" + t.arch
}

// sorted returns a copy of files that is sorted by name.
func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
}

// withFolders returns files, and adds each parent directory that is missing. A directory comes
// before its contents. The added directories belong to root.
func withFolders(files []file) []file {
	has := map[string]bool{}
	for _, f := range files {
		has[f.name] = true
	}
	all := slices.Clone(files)
	for _, f := range files {
		for dir := path.Dir(f.name); dir != "." && !has[dir]; dir = path.Dir(dir) {
			has[dir] = true
			all = append(all, file{name: dir, mode: fs.ModeDir | 0o755})
		}
	}
	return sorted(all)
}

// tarred returns a tar archive of files and their parent directories, all with the modification
// time at.
func tarred(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, f := range withFolders(files) {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.data)), Mode: int64(f.mode.Perm()),
			Uid: f.owner, Gid: f.owner, ModTime: at, Format: tar.FormatUSTAR,
		}
		if f.mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, f.name+"/"
		}
		if f.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := t.Close()
	return b.Bytes(), err
}

// compressed returns data in gzip format. To be reproducible, the result contains no file name or
// time.
func compressed(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

func zipped(files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range sorted(files) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode) // for unpacking the archive on Unix
		member, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := io.Copy(member, bytes.NewReader(f.data)); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}
