package userfile

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unicode"
)

// A File is a file that ReadFile has read.
type File struct {
	Data []byte
	name string
	info os.FileInfo // of the open file, so that nobody can replace the file before it is checked
}

// ReadFile opens and reads a file of at most maxSize bytes, like ReadSmallFile. The caller can then
// find out whether the file contains a secret, and check who has access to it.
func ReadFile(name string, maxSize int64) (*File, error) {
	return readFile(name, maxSize, func(*File) error { return nil })
}

// ReadPrivate reads a file of at most maxSize bytes that always contains a secret. It returns an
// error unless CheckPrivate accepts the file. secret describes what the file contains.
func ReadPrivate(name string, maxSize int64, secret string) ([]byte, error) {
	f, err := readFile(name, maxSize, func(f *File) error { return f.CheckPrivate(secret) })
	if err != nil {
		return nil, err
	}
	return f.Data, nil
}

// readFile opens a file, calls check, and then reads the file.
func readFile(name string, maxSize int64, check func(*File) error) (*File, error) {
	opened, err := OpenToRead(name)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	f := &File{name: name}
	if f.info, err = opened.Stat(); err != nil {
		return nil, err
	}
	if !f.info.IsDir() { // readSmall rejects directories
		if err := check(f); err != nil {
			return nil, err
		}
	}
	f.Data, err = readSmall(opened, maxSize, readPatience)
	return f, err
}

// CheckPrivate returns an error if other users can read or write the file, or if it belongs to
// another user. The file can belong to root, and then also be readable by a group, because root
// decides who is in the group. secret describes what the file contains, for the error.
//
// On Windows, the permissions of the directory determine who has access to a file, so CheckPrivate
// accepts every file.
func (f *File) CheckPrivate(secret string) error {
	if uid, known := owner(f.info); known && uid == 0 && os.Geteuid() != 0 {
		return f.check(secret, "accessible to", 0o037, "640")
	}
	return f.check(secret, "accessible to", 0o077, "600")
}

// CheckTrusted returns an error if other users can write the file, or if it belongs to another user
// than root or the user of this process. content describes why nobody else may write it.
func (f *File) CheckTrusted(content string) error {
	return f.check(content, "writable by", 0o022, "go-w")
}

// check returns an error if the file belongs to another user, or if its mode has one of the denied
// bits. access describes these bits, and mode is the argument of chmod that removes them.
func (f *File) check(content, access string, denied fs.FileMode, mode string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	var faults, remedies []string
	uid, known := owner(f.info)
	me := os.Geteuid()
	if known && uid != 0 && int(uid) != me {
		faults = append(faults, fmt.Sprintf("belongs to another user (uid %d)", uid))
		remedies = append(remedies, "chown "+strconv.Itoa(me)+" "+fileWord(f.name))
	}
	if perm := f.info.Mode().Perm(); perm&denied != 0 {
		faults = append(faults, fmt.Sprintf("is %s other users (mode %04o)", access, perm))
		remedies = append(remedies, "chmod "+mode+" "+fileWord(f.name))
	}
	if faults == nil {
		return nil
	}
	remedy := "run: " + strings.Join(remedies, " && ")
	switch {
	case !f.info.Mode().IsRegular():
		remedy = "use a regular file that belongs to you"
	case known && int(uid) != me && me != 0:
		remedy = "as root, " + remedy
	}
	return fmt.Errorf("%s contains %s, but %s; %s", f.name, content, strings.Join(faults, " and "), remedy)
}

// fileWord returns a file name as an argument for a command that a shell runs.
func fileWord(name string) string {
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	return ShellWord(name)
}

// ShellWord returns a word in the form in which a Unix shell reads it as one word.
func ShellWord(word string) string {
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("_@%+:,./-", r)
	}
	if word != "" && !strings.ContainsFunc(word, special) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
