//go:build unix && !darwin && !ios

package userfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zksh/zksh/internal/zktest"
)

// Only absolute paths in the environment count. A directory is unknown if the environment has none,
// and the error says why.
func TestDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	const noHome, relativeHome = "$HOME is not defined", `the home directory "rel" is not an absolute path`
	for _, c := range []struct{ xdg, home, config, state, why string }{
		{"/x", "/h", "/x", "/x", ""},
		{"/x", "", "/x", "/x", ""},
		{"", "/h", "/h/.config", "/h/.local/state", ""},
		{"rel", "/h", "/h/.config", "/h/.local/state", ""},
		{"./rel", "/h", "/h/.config", "/h/.local/state", ""},
		{"~/rel", "/h", "/h/.config", "/h/.local/state", ""},
		{"", "", "", "", " is not set, and " + noHome},
		{"rel", "", "", "", " is not an absolute path, and " + noHome},
		{"", "rel", "", "", " is not set, and " + relativeHome},
		{"rel", "rel", "", "", " is not an absolute path, and " + relativeHome},
	} {
		t.Setenv("HOME", c.home)
		for name, of := range map[string]struct {
			dir  func() (string, error)
			want string
		}{
			"XDG_CONFIG_HOME": {ConfigDir, c.config}, "XDG_STATE_HOME": {StateDir, c.state},
		} {
			t.Setenv(name, c.xdg)
			dir, err := of.dir()
			if c.why == "" && err != nil || c.why != "" && (err == nil || err.Error() != name+c.why) || dir != of.want {
				t.Errorf("%+v: %s: %q, %v", c, name, dir, err)
			}
		}
	}
}

// A relative home directory does not count for ~/ either.
func TestRelativeHome(t *testing.T) {
	for home, want := range map[string]string{"/h": "/h/x", "rel": "~/x", "": "~/x"} {
		t.Setenv("HOME", home)
		if got := Home("~/x"); got != want {
			t.Errorf("HOME=%s: %s, want %s", home, got, want)
		}
	}
}

// StateDir rejects a folder zksh of another user, even if everybody may write to it.
func TestForeignStateDir(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: a folder of another user, because only root can change the owner of a folder")
	}
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	own := filepath.Join(dir, "zksh")
	zktest.Must(t, os.Mkdir(own, 0o700))
	if got, err := StateDir(); err != nil || got != dir {
		t.Errorf("%s, %v", got, err)
	}
	zktest.Must(t, os.Chown(own, 65534, 65534))
	for _, mode := range []os.FileMode{0o700, 0o777} {
		zktest.Must(t, os.Chmod(own, mode))
		if got, err := StateDir(); got != "" || err == nil || !strings.Contains(err.Error(), own+" belongs to another user (uid 65534)") {
			t.Errorf("%v: %s, %v", mode, got, err)
		}
	}
}
