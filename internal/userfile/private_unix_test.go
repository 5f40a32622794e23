//go:build unix

package userfile

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// asUser calls do as another user, with user ID uid and group ID gid. It changes only the effective
// IDs, so it must not run in parallel with other tests.
func asUser(t *testing.T, uid, gid int, do func()) {
	t.Helper()
	zktest.Must(t, syscall.Setegid(gid))
	defer func() { zktest.Must(t, syscall.Setegid(0)) }()
	zktest.Must(t, syscall.Seteuid(uid))
	defer func() { zktest.Must(t, syscall.Seteuid(0)) }()
	do()
}

// A private file belongs to the user or to root, and nobody else can read or write it. The error
// names the file, each fault and the commands that fix it.
func TestCheckPrivate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "secret")
	zktest.Must(t, os.WriteFile(name, []byte("x"), 0o600))
	for _, mode := range []os.FileMode{0o600, 0o400, 0o200, 0o700} {
		zktest.Must(t, os.Chmod(name, mode))
		if data, err := ReadPrivate(name, 1, "a secret"); err != nil && (os.Geteuid() == 0 || mode&0o400 != 0) || err == nil && string(data) != "x" {
			t.Errorf("%04o: %q, %v", mode, data, err)
		}
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o666, 0o602, 0o620, 0o610, 0o644, 0o440} {
		zktest.Must(t, os.Chmod(name, mode))
		want := name + " contains a secret, but is accessible to other users (mode " + modeText(mode) + "); run: chmod 600 " + name
		if data, err := ReadPrivate(name, 1, "a secret"); err == nil || err.Error() != want || data != nil {
			t.Errorf("%04o: %q, %v", mode, data, err)
		}
	}
}

func modeText(mode os.FileMode) string {
	text := strconv.FormatUint(uint64(mode), 8)
	return strings.Repeat("0", 4-len(text)) + text
}

// What CheckPrivate and CheckTrusted say about the owner depends on who asks.
func TestOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: files of other users, because only root can change the owner of a file")
	}
	const me, other = 12345, 54321
	dir, err := os.MkdirTemp("/tmp", "zksh-owners-") // other users cannot enter t.TempDir()
	zktest.Must(t, err)
	defer func() { zktest.Must(t, os.RemoveAll(dir)) }()
	zktest.Must(t, os.Chmod(dir, 0o755))
	name := filepath.Join(dir, "secret")
	zktest.Must(t, os.WriteFile(name, nil, 0o600))
	const foreign = " contains a secret, but belongs to another user (uid 54321)"
	for _, c := range []struct {
		asker, owner, group int
		mode                os.FileMode
		private, trusted    string // errors without the name, or empty
	}{
		{me, me, me, 0o600, "", ""},
		{me, me, me, 0o644, " contains a secret, but is accessible to other users (mode 0644); run: chmod 600 NAME", ""},
		{me, me, me, 0o664, " contains a secret, but is accessible to other users (mode 0664); run: chmod 600 NAME",
			" contains a secret, but is writable by other users (mode 0664); run: chmod go-w NAME"},
		{me, 0, me, 0o640, "", ""},
		{me, 0, me, 0o440, "", ""},
		{me, 0, me, 0o660, " contains a secret, but is accessible to other users (mode 0660); as root, run: chmod 640 NAME",
			" contains a secret, but is writable by other users (mode 0660); as root, run: chmod go-w NAME"},
		{me, 0, 0, 0o644, " contains a secret, but is accessible to other users (mode 0644); as root, run: chmod 640 NAME", ""},
		{me, other, me, 0o640, foreign + " and is accessible to other users (mode 0640); as root, run: chown 12345 NAME && chmod 600 NAME",
			foreign + "; as root, run: chown 12345 NAME"},
		{0, 0, 0, 0o600, "", ""},
		{0, 0, 0, 0o640, " contains a secret, but is accessible to other users (mode 0640); run: chmod 600 NAME", ""},
		{0, other, other, 0o600, foreign + "; run: chown 0 NAME", foreign + "; run: chown 0 NAME"},
		{0, other, other, 0o606, foreign + " and is accessible to other users (mode 0606); run: chown 0 NAME && chmod 600 NAME",
			foreign + " and is writable by other users (mode 0606); run: chown 0 NAME && chmod go-w NAME"},
	} {
		zktest.Must(t, os.Chown(name, c.owner, c.group))
		zktest.Must(t, os.Chmod(name, c.mode))
		check := func() {
			f, err := ReadFile(name, 1)
			zktest.Must(t, err)
			for want, err := range map[string]error{"private" + c.private: f.CheckPrivate("a secret"), "trusted" + c.trusted: f.CheckTrusted("a secret")} {
				got := want[:len("private")]
				if err != nil {
					got += strings.ReplaceAll(strings.TrimPrefix(err.Error(), name), name, "NAME")
				}
				if got != want {
					t.Errorf("%+v: %q, want %q", c, got, want)
				}
			}
		}
		if c.asker == 0 {
			check()
		} else {
			asUser(t, c.asker, c.asker, check)
		}
	}
}

// The check concerns the file that was opened, also behind a symbolic link. A file that is not regular
// cannot be fixed with chmod. A pipe of process substitution is private.
func TestPrivateLinksAndPipes(t *testing.T) {
	dir := t.TempDir()
	file, link, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	zktest.Must(t, os.WriteFile(file, []byte("x"), 0o644))
	zktest.Must(t, os.Symlink(file, link))
	if _, err := ReadPrivate(link, 1, "a secret"); err == nil || !strings.Contains(err.Error(), "is accessible to other users (mode 0644); run: chmod 600 "+link) {
		t.Error(err)
	}
	zktest.Must(t, os.Chmod(file, 0o600))
	if data, err := ReadPrivate(link, 1, "a secret"); err != nil || string(data) != "x" {
		t.Errorf("%q, %v", data, err)
	}
	zktest.Must(t, syscall.Mkfifo(fifo, 0o600))
	zktest.Must(t, os.Chmod(fifo, 0o620))
	w, err := os.OpenFile(fifo, os.O_RDWR, 0)
	zktest.Must(t, err)
	defer w.Close()
	for path, want := range map[string]string{
		fifo:        fifo + " contains a secret, but is accessible to other users (mode 0620); use a regular file that belongs to you",
		"/dev/null": "use a regular file that belongs to you",
		dir:         dir + " is a directory",
	} {
		if _, err := ReadPrivate(path, 1, "a secret"); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The commands in the errors work for every file name.
func TestFileWord(t *testing.T) {
	for name, want := range map[string]string{
		"/etc/a-b_c.d":   "/etc/a-b_c.d",
		"a b":            "'a b'",
		"it's":           `'it'\''s'`,
		"":               "''",
		"a,b:1/大":        "a,b:1/大",
		"it's a $x":      `'it'\''s a $x'`,
		"a=b":            "'a=b'",
		"-x":             "./-x",
		"-R; rm":         "'./-R; rm'",
		"$(touch x)":     "'$(touch x)'",
		"~/x":            "'~/x'",
		"größe":          "größe",
		"\x1b[2Jcleared": "'\x1b[2Jcleared'",
	} {
		if got := fileWord(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
